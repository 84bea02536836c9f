//! Output for terminals: messages on stderr, colours and Unicode symbols. Colours are used only on a terminal whose user
//! has not turned them off; symbols only if the locale has UTF-8.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};

/// Prints a line on stderr. A closed stderr is not a failure.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Replaces the current line of the terminal on stderr. An empty text clears the line.
pub(crate) fn say_again(text: &str) {
    let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
}

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

/// Whether to use colours, and whether symbols are limited to ASCII.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint {
    colours: bool,
    ascii: bool,
}

impl Paint {
    /// See <https://no-color.org>.
    pub(crate) fn for_stderr() -> Self {
        Self { colours: std::io::stderr().is_terminal() && wanted(), ascii: is_ascii() }
    }

    pub(crate) fn for_stdout() -> Self {
        Self { colours: std::io::stdout().is_terminal() && wanted(), ascii: is_ascii() }
    }

    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { colours: false, ascii: false }
    }

    #[cfg(test)]
    pub(crate) fn ascii() -> Self {
        Self { colours: false, ascii: true }
    }

    /// Returns `unicode`, or `ascii` if only ASCII characters can be shown.
    pub(crate) fn sign<T>(self, unicode: T, ascii: T) -> T {
        if self.ascii { ascii } else { unicode }
    }

    /// The mark for text that was cut off.
    pub(crate) fn ellipsis(self) -> &'static str {
        self.sign("…", "...")
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

/// Whether the locale says that there is no UTF-8. An unset locale counts as UTF-8: most often it is that of a container,
/// and the terminal outside of the container has UTF-8.
fn is_ascii() -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).is_some_and(|locale| !has_utf8(&locale))
}

fn has_utf8(locale: &OsString) -> bool {
    let locale = locale.to_string_lossy().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf_8_is_recognised_in_the_locale() {
        for locale in ["C.UTF-8", "en_GB.utf8"] {
            assert!(has_utf8(&locale.into()), "{locale}");
        }
        for locale in ["C", "POSIX", "de_DE.ISO-8859-1"] {
            assert!(!has_utf8(&locale.into()), "{locale}");
        }
    }

    #[test]
    fn without_colours_a_text_is_unchanged() {
        assert_eq!(Paint::plain().with(Colour::Red, "no"), "no");
        assert_eq!(Paint { colours: true, ascii: false }.with(Colour::Red, "no"), "\x1b[31mno\x1b[0m");
        assert_eq!(Paint { colours: true, ascii: false }.with(Colour::Red, ""), "");
    }
}
