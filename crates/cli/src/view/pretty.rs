//! Formats JSON for people: the same text with line breaks. Numbers and the order of keys do not change. Characters
//! that a terminal would interpret are escaped.

use std::fmt::Write;

/// Maximum depth that is indented. Deeper values stay on one line, because indenting would take space quadratic in
/// the depth.
const DEEPEST: usize = 24;

/// Formats a value on several lines.
pub(crate) fn indented(json: &str) -> String {
    lay_out(json, true, 0)
}

/// Formats a value as an array item, with the line break before it.
pub(crate) fn item(json: &str) -> String {
    format!("\n  {}", lay_out(json, true, 1))
}

/// Formats a value on one line.
pub(crate) fn one_line(json: &str) -> String {
    lay_out(json, false, 0)
}

/// Expects valid JSON. For other text only the white space changes.
fn lay_out(json: &str, lines: bool, mut depth: usize) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut characters = json.chars().peekable();
    let line = |out: &mut String, inside: usize, depth: usize| {
        if lines && inside <= DEEPEST {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", depth));
        }
    };
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                out.push('"');
                string(&mut out, &mut characters);
            }
            '{' | '[' => {
                out.push(character);
                while characters.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                if let Some(end) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    line(&mut out, depth, depth);
                }
            }
            '}' | ']' => {
                let inside = depth;
                depth = depth.saturating_sub(1);
                line(&mut out, inside, depth);
                out.push(character);
            }
            ',' => {
                out.push(',');
                line(&mut out, depth, depth);
            }
            ':' => out.push_str(if lines { ": " } else { ":" }),
            blank if blank.is_ascii_whitespace() => {}
            other => push(&mut out, other),
        }
    }
    out
}

/// Copies the rest of a string, with its closing quote.
fn string(out: &mut String, characters: &mut impl Iterator<Item = char>) {
    while let Some(character) = characters.next() {
        push(out, character);
        match character {
            '"' => return,
            '\\' => out.extend(characters.next()),
            _ => {}
        }
    }
}

fn push(out: &mut String, character: char) {
    if super::words::is_obeyed(character) {
        // Escape it. In a string this means the same, and control characters do not occur elsewhere.
        let _ = write!(out, "\\u{:04x}", u32::from(character));
    } else {
        out.push(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blanks_differ() {
        let json = r#"{"b":[1,2.50,{"x":"a:b,{\"\\"}],"a":{},"c":[ ],"n":123456789012345678901234567890}"#;
        let expected = r#"{
  "b": [
    1,
    2.50,
    {
      "x": "a:b,{\"\\"
    }
  ],
  "a": {},
  "c": [],
  "n": 123456789012345678901234567890
}"#;
        assert_eq!(indented(json), expected);
        assert_eq!(indented(expected), expected);
        assert_eq!(one_line(expected), json.replace("[ ]", "[]"));
        assert_eq!(indented("\"x\""), "\"x\"");
        assert_eq!(format!("[{},{}\n]", item("{\"a\":[1]}"), item("2")), indented("[{\"a\":[1]},2]"));
    }

    #[test]
    fn what_is_nested_deeply_takes_no_more_room_than_it_has() {
        let deep = format!("{}1,2{}", "[".repeat(100_000), "]".repeat(100_000));
        let laid_out = indented(&deep);
        assert!(laid_out.len() < deep.len() + 10_000, "{}", laid_out.len());
        assert_eq!(laid_out.split_whitespace().collect::<String>(), deep);
    }

    #[test]
    fn a_terminal_obeys_nothing_of_it() {
        let json = "\"\u{9b}31m \u{202e}abc\"";
        assert_eq!(indented(json), "\"\\u009b31m \\u202eabc\"");
        let read = |text: &str| serde_json::from_str::<String>(text).unwrap();
        assert_eq!(read(&indented(json)), read(json));
    }
}
