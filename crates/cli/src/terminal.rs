//! Colours on stdout and stderr: only for people, and only if they want them.

use std::io::IsTerminal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
}

impl Colour {
    fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Blue => "34",
            Self::Magenta => "35",
            Self::Cyan => "36",
        }
    }
}

/// Whether to paint at all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    colours: bool,
}

impl Paint {
    /// See <https://no-color.org>.
    pub(crate) fn for_stderr() -> Self {
        Self { colours: std::io::stderr().is_terminal() && wanted() }
    }

    pub(crate) fn for_stdout() -> Self {
        Self { colours: std::io::stdout().is_terminal() && wanted() }
    }

    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { colours: false }
    }

    pub(crate) fn with(self, colour: Colour, text: &str) -> String {
        if self.colours && !text.is_empty() {
            format!("\x1b[{}m{text}\x1b[0m", colour.code())
        } else {
            text.to_owned()
        }
    }
}

fn wanted() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    !set("NO_COLOR") && !dumb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colours_a_text_stays_as_it_is() {
        assert_eq!(Paint::plain().with(Colour::Red, "no"), "no");
        assert_eq!(Paint { colours: true }.with(Colour::Red, "no"), "\x1b[31mno\x1b[0m");
        assert_eq!(Paint { colours: true }.with(Colour::Red, ""), "");
    }
}
