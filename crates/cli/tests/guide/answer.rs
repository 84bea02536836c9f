//! Compares the answer of a server with the answer shown on a page.
//!
//! - An object may have more fields than the page shows; a list must have the same number of items.
//! - `...` inside a text matches any text.
//! - An id on the page matches one id of the server, the same everywhere on the page, and different ids match
//!   different ids.
//! - A time matches any time, unless the page itself sent it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::page::Page;

const ID_LENGTH: usize = 36;

/// Maps the ids on the page to the ids of the server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names(BTreeMap<String, String>);

impl Names {
    /// Replaces the page's ids by the server's ids in a script.
    pub(crate) fn put_into(&self, script: &str) -> String {
        self.0.iter().fold(script.to_owned(), |text, (page, server)| text.replace(page, server))
    }

    fn is(&mut self, page: &str, server: &str) -> bool {
        match self.0.get(page) {
            Some(known) => known == server,
            None if self.0.values().any(|known| known == server) => false,
            None => self.0.insert(page.to_owned(), server.to_owned()).is_none(),
        }
    }
}

#[derive(Debug, PartialEq)]
pub(crate) enum Body {
    Any,
    Json(Value),
    /// In this order, with other lines in between.
    Lines(Vec<String>),
}

impl Body {
    pub(crate) fn fits(&self, printed: &str, names: &mut Names, page: &Page) -> Result<(), String> {
        match self {
            Self::Any => Ok(()),
            Self::Json(expected) => {
                let found: Value =
                    serde_json::from_str(printed).map_err(|error| format!("{error}: {printed}"))?;
                value_fits(expected, &found, "", names, page)
                    .map_err(|error| format!("{error}\nin {found:#}"))
            }
            Self::Lines(expected) => {
                let mut found = printed.lines();
                let absent = expected.iter().find(|line| !found.any(|found| text_fits(line, found, names)));
                absent.map_or(Ok(()), |line| Err(format!("{line:?} is not, or not there, in\n{printed}")))
            }
        }
    }
}

fn value_fits(
    page: &Value,
    server: &Value,
    path: &str,
    names: &mut Names,
    whole: &Page,
) -> Result<(), String> {
    let fits = match (page, server) {
        (Value::Object(expected), Value::Object(found)) => {
            for (name, expected) in expected {
                let path = format!("{path}.{name}");
                let found = found.get(name).ok_or_else(|| format!("{path} is missing"))?;
                value_fits(expected, found, &path, names, whole)?;
            }
            true
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                value_fits(expected, found, &format!("{path}[{index}]"), names, whole)?;
            }
            true
        }
        (Value::String(expected), Value::String(found)) => {
            let any_moment = is_moment(expected) && !whole.scripts.contains(expected.as_str());
            if any_moment { is_moment(found) } else { text_fits(expected, found, names) }
        }
        _ => page == server,
    };
    if fits { Ok(()) } else { Err(format!("{path} is {page} on the page and {server} from the server")) }
}

fn is_moment(text: &str) -> bool {
    text.len() >= 20 && text.ends_with('Z') && text.parse::<jiff::Timestamp>().is_ok()
}

fn text_fits(page: &str, server: &str, names: &mut Names) -> bool {
    if let Some(rest) = page.strip_prefix("...") {
        let mut ends = server.char_indices().map(|(index, _)| index).chain([server.len()]);
        return ends.any(|end| text_fits(rest, &server[end..], names));
    }
    if let (Some(expected), Some(found)) = (id_at_start(page), id_at_start(server)) {
        // If a text does not match completely, its ids are not recorded.
        let mut tried = names.clone();
        let fits =
            tried.is(expected, found) && text_fits(&page[ID_LENGTH..], &server[ID_LENGTH..], &mut tried);
        if fits {
            *names = tried;
        }
        return fits;
    }
    let (mut page, mut server) = (page.chars(), server.chars());
    match (page.next(), server.next()) {
        (None, None) => true,
        (Some(expected), Some(found)) if expected == found => {
            text_fits(page.as_str(), server.as_str(), names)
        }
        _ => false,
    }
}

fn id_at_start(text: &str) -> Option<&str> {
    let id = text.get(..ID_LENGTH)?;
    let is_id = id.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    });
    is_id.then_some(id)
}

#[test]
fn a_wrong_answer_is_found() {
    use serde_json::json;

    let (a, b) = ("01a1e1be-21e9-7a9b-8268-44de0dc944bf", "01a1e1be-22b7-7995-b884-f1df2d47dacd");
    let (x, y) = ("11111111-1111-7111-8111-111111111111", "22222222-2222-7222-8222-222222222222");
    let page = Page::read("```sh\nAT=2099-01-01T00:00:00Z\n```").unwrap();
    let fits = |expected: Value, found: Value| {
        Body::Json(expected).fits(&found.to_string(), &mut Names::default(), &page).is_ok()
    };
    assert!(fits(json!({ "a": 1 }), json!({ "a": 1, "b": 2 })));
    assert!(!fits(json!({ "a": 1, "b": 2 }), json!({ "a": 1 })));
    assert!(!fits(json!({ "a": 1 }), json!({ "a": 2 })));
    assert!(!fits(json!([1]), json!([1, 2])) && !fits(json!([1]), json!([2])));
    assert!(fits(json!("fwt_..."), json!("fwt_1")) && !fits(json!("fwt_..."), json!("flv_1")));
    assert!(fits(json!([a, b, a]), json!([x, y, x])));
    assert!(!fits(json!([a, b]), json!([x, x])) && !fits(json!([a, a]), json!([x, y])));
    assert!(fits(json!(format!("/{a}/events")), json!(format!("/{x}/events"))));
    assert!(!fits(json!(format!("/{a}/events")), json!(format!("/{x}/tasks"))));
    assert!(fits(json!("2026-01-01T00:00:00Z"), json!("2027-02-02T00:00:00.123Z")));
    assert!(!fits(json!("2026-01-01T00:00:00Z"), json!("tomorrow")));
    assert!(!fits(json!("2099-01-01T00:00:00Z"), json!("2027-02-02T00:00:00Z")), "it was sent");
    let lines = |expected: &[&str], found: &str| {
        let expected = expected.iter().map(|line| (*line).to_owned()).collect();
        Body::Lines(expected).fits(found, &mut Names::default(), &page).is_ok()
    };
    assert!(lines(&["a", "c ..."], "a\nb\nc d\n"));
    assert!(lines(&[&format!("{a} done")], &format!("{x} begun\n{y} done\n")));
    assert!(!lines(&["c", "a"], "a\nb\nc\n") && !lines(&["d"], "a\n"));
}
