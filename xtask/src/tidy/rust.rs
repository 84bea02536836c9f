//! A minimal lexer for Rust that separates code from comments and literals.
//!
//! Without it every rule would find its own description. It does not parse anything else.

/// The text between the quotes of a string literal.
pub(super) struct Literal {
    pub(super) line: usize,
    pub(super) text: String,
}

/// A Rust file split into code and literals.
pub(super) struct Scanned {
    /// Code line by line, without comments and with empty literals.
    pub(super) code: Vec<String>,
    pub(super) literals: Vec<Literal>,
}

impl Scanned {
    pub(super) fn new(text: &str) -> Scanned {
        let mut scanner = Scanner { rest: text, code: vec![String::new()], literals: Vec::new() };
        while !scanner.rest.is_empty() {
            scanner.next_token();
        }
        // The text after the last line break is not a line.
        if scanner.code.last().is_some_and(String::is_empty) {
            scanner.code.pop();
        }
        Scanned { code: scanner.code, literals: scanner.literals }
    }
}

/// Whether `needle` occurs in a line of code as whole words: `unsafe` does not occur in `unsafe_code`.
pub(super) fn mentions(line: &str, needle: &str) -> bool {
    line.match_indices(needle).any(|(start, _)| {
        let (before, rest) = line.split_at(start);
        let after = &rest[needle.len()..];
        let joined = |a: Option<char>, b: Option<char>| a.is_some_and(is_word) && b.is_some_and(is_word);
        !joined(before.chars().next_back(), needle.chars().next())
            && !joined(needle.chars().next_back(), after.chars().next())
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Scanner<'a> {
    rest: &'a str,
    code: Vec<String>,
    literals: Vec<Literal>,
}

impl Scanner<'_> {
    fn next_token(&mut self) {
        if self.rest.starts_with("//") {
            let length = self.rest.find('\n').unwrap_or(self.rest.len());
            self.rest = &self.rest[length..];
        } else if self.rest.starts_with("/*") {
            self.block_comment();
        } else if self.rest.starts_with('"') {
            self.string();
        } else if self.rest.starts_with('\'') {
            self.character_or_lifetime();
        } else if self.rest.starts_with(is_word) {
            self.word();
        } else if let Some(c) = self.take() {
            self.emit(c);
        }
    }

    /// Consumes a character. A line break starts a new line of code everywhere.
    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        if c == '\n' {
            self.code.push(String::new());
        }
        Some(c)
    }

    fn emit(&mut self, c: char) {
        if c != '\n' {
            self.code.last_mut().expect("there is a line from the start").push(c);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0usize;
        loop {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.take();
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.take();
            }
            if self.take().is_none() || depth == 0 {
                return;
            }
        }
    }

    fn word(&mut self) {
        let length = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(length);
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        let is_raw = matches!(word, "r" | "br" | "cr") && rest[hashes..].starts_with('"');
        word.chars().for_each(|c| self.emit(c));
        self.rest = rest;
        if is_raw {
            self.raw_string(hashes);
        }
    }

    fn raw_string(&mut self, hashes: usize) {
        let end = format!("\"{}", "#".repeat(hashes));
        let line = self.code.len();
        self.rest = &self.rest[hashes + 1..];
        let length = self.rest.find(&end).unwrap_or(self.rest.len());
        let text = self.rest[..length].to_owned();
        self.emit('"');
        for _ in text.chars() {
            self.take();
        }
        self.rest = self.rest.get(end.len()..).unwrap_or_default();
        self.emit('"');
        self.literals.push(Literal { line, text });
    }

    fn string(&mut self) {
        let line = self.code.len();
        let mut text = String::new();
        self.take();
        self.emit('"');
        while let Some(c) = self.take() {
            match c {
                '"' => break,
                // Rules that look at the beginning of a literal need escapes that are white space.
                '\\' => match self.take() {
                    Some('n' | 't' | 'r' | '\n') | None => text.push(' '),
                    Some(escaped) => text.push(escaped),
                },
                c => text.push(c),
            }
        }
        self.emit('"');
        self.literals.push(Literal { line, text });
    }

    fn character_or_lifetime(&mut self) {
        self.take();
        let mut following = self.rest.chars();
        let (first, second) = (following.next(), following.next());
        self.emit('\'');
        if first == Some('\\') {
            self.take();
            self.take();
            while self.take().is_some_and(|c| c != '\'') {}
            self.emit('\'');
        } else if second == Some('\'') {
            self.take();
            self.take();
            self.emit('\'');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Scanned::new(text).code.join("\n")
    }

    fn literals(text: &str) -> Vec<(usize, String)> {
        Scanned::new(text).literals.into_iter().map(|literal| (literal.line, literal.text)).collect()
    }

    #[test]
    fn comments_are_left_out() {
        assert_eq!(code("a // b\nc /* d /* e */ \n f */ g\n"), "a \nc \n g");
    }

    #[test]
    fn literals_are_emptied_and_kept_apart() {
        assert_eq!(code(r#"f("a\"b // c"); g"#), r#"f(""); g"#);
        assert_eq!(code("r#\"x \"y\" \n z\"#; w"), "r\"\n\"; w");
        assert_eq!(literals("x\n\"a\\\"b\"; br##\"c\"#d\"##"), [(2, "a\"b".into()), (2, "c\"#d".into())]);
    }

    #[test]
    fn quotes_of_characters_and_lifetimes_open_no_string() {
        assert_eq!(code(r#"f('"', '\'', '\u{22}', b'"'); "a""#), r#"f('', '', '', b''); """#);
        assert_eq!(code("fn f<'a>(x: &'a str) { r#fn }"), "fn f<'a>(x: &'a str) { r#fn }");
    }

    #[test]
    fn lines_keep_their_numbers_through_literals() {
        assert_eq!(literals("\"a\nb\"\n\"c\""), [(1, "a\nb".into()), (3, "c".into())]);
    }

    #[test]
    fn mentions_are_of_whole_words() {
        assert!(mentions("unsafe { }", "unsafe"));
        assert!(!mentions("#![forbid(unsafe_code)]", "unsafe"));
        assert!(mentions("x.unwrap()", ".unwrap()"));
        assert!(!mentions("eprintln!()", "println!"));
    }
}
