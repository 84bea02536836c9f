//! Icons, drawn by hand as lines in the colour of the surrounding text.

macro_rules! icon {
    ($($path:literal),+) => {
        concat!(
            r#"<svg class="glyph" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">"#,
            $(r#"<path d=""#, $path, r#""/>"#,)+
            "</svg>"
        )
    };
}

pub(crate) const OVERVIEW: &str = icon!("M2 13V8", "M6 13V3", "M10 13V6", "M14 13V9");
pub(crate) const EXECUTIONS: &str = icon!("M2 4h7", "M5 8h9", "M3 12h6");
pub(crate) const TASKS: &str = icon!("M2.5 3.5h11v9h-11z", "M5.5 8l2 2 3.5-4");
pub(crate) const QUEUES: &str = icon!("M2 5l6-3 6 3-6 3z", "M2 8l6 3 6-3", "M2 11l6 3 6-3");
pub(crate) const WORKERS: &str = icon!("M3 3h10v4H3z", "M3 9h10v4H3z", "M5 5h1", "M5 11h1");
pub(crate) const ACCESS: &str = icon!("M10 9a3.5 3.5 0 1 0-3.2-2L2 11.8V14h2.2v-1.6h1.6v-1.6h1.6z");
pub(crate) const AUDIT: &str = icon!("M4 2h6l3 3v9H4z", "M6 7h5", "M6 9.5h5", "M6 12h3");
pub(crate) const THEME: &str = icon!("M8 2.5a5.5 5.5 0 1 0 0 11z", "M8 2.5a5.5 5.5 0 0 1 0 11");
pub(crate) const LEAVE: &str = icon!("M9 3H3v10h6", "M6.5 8H14", "M11.5 5.5L14 8l-2.5 2.5");
pub(crate) const COPY: &str = icon!("M6 6h7v7H6z", "M10 6V3H3v7h3");
pub(crate) const BRAND: &str = concat!(
    r#"<svg class="brand-mark" viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">"#,
    r#"<path d="M5 8h14a5 5 0 0 1 0 10h-6a4 4 0 0 0 0 8h14"/><circle cx="5" cy="8" r="3"/>"#,
    r#"<circle cx="27" cy="26" r="3"/></svg>"#
);
