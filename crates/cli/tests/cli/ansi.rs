//! Converts terminal output to an HTML page with the same text and colours.

const HEAD: &str = "<!doctype html><meta charset=utf-8><style>\
html { background: #14181f; } body { margin: 0; }\
pre { margin: 0; padding: 20px; color: #d7dde6; font: 14px/20px 'DejaVu Sans Mono', monospace; }\
b { color: #fff; } i { font-style: normal; color: #7e8998; } u { text-underline-offset: 3px; }\
.c31 { color: #ff8f85; } .c32 { color: #6fd39a; } .c33 { color: #f2be63; } .c34 { color: #8ea6ff; }\
.c35 { color: #d7a1f5; } .c36 { color: #6fcbe0; }\
</style><pre>";

/// An unexpected escape sequence is an error, because output must not control the terminal.
pub(crate) fn html(text: &str) -> Result<String, String> {
    let mut page = HEAD.to_owned();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let Some(after) = rest.strip_prefix("\x1b[") else {
            match character {
                '&' => page.push_str("&amp;"),
                '<' => page.push_str("&lt;"),
                '\n' => page.push('\n'),
                other if other.is_control() => return Err(format!("a character {other:?}")),
                other => page.push(other),
            }
            rest = &rest[character.len_utf8()..];
            continue;
        };
        let (codes, after) = after.split_once('m').ok_or("an escape without an end")?;
        for code in codes.split(';') {
            let (begin, end) = match code {
                "" | "0" => {
                    page.extend(open.drain(..).rev());
                    continue;
                }
                "1" => ("<b>".to_owned(), "</b>"),
                "2" => ("<i>".to_owned(), "</i>"),
                "4" => ("<u>".to_owned(), "</u>"),
                "31" | "32" | "33" | "34" | "35" | "36" => (format!("<span class=c{code}>"), "</span>"),
                other => return Err(format!("an escape {other:?}")),
            };
            page.push_str(&begin);
            open.push(end);
        }
        rest = after;
    }
    page.extend(open.drain(..).rev());
    Ok(page + "</pre>")
}

#[test]
fn colours_become_elements() {
    let page = |text: &str| html(text).map(|page| page.strip_prefix(HEAD).unwrap().to_owned());
    assert_eq!(
        page("a <b> & \x1b[1;32mgood\x1b[0m"),
        Ok("a &lt;b> &amp; <b><span class=c32>good</span></b></pre>".into())
    );
    assert_eq!(page("\x1b[2mdim"), Ok("<i>dim</i></pre>".into()));
    for wrong in ["\x1b[2J", "\x1b]0;title\x07", "\x07", "\x1b[5mblinks"] {
        assert!(page(wrong).is_err(), "{wrong:?}");
    }
}
