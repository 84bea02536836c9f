//! Parsers of arguments: JSON, durations, times, ids and labels. Invalid values are refused before anything is sent.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::str::FromStr;

use serde_json::value::RawValue;

use crate::view::note;
use crate::view::words::now_ms;

const EMPTY: &str = "the value is empty; check whether a shell variable is unset";

/// The largest input that is read. The server accepts no larger payload.
const MAX_BYTES: u64 = 16 << 20;

/// Reads JSON from the argument itself, from a file (`@FILE`), or from stdin (`@-` or `-`).
pub(crate) fn json(text: &str) -> Result<Box<RawValue>, String> {
    let content = match text.strip_prefix('@').or((text == "-").then_some("-")) {
        None => text.to_owned(),
        Some("-") => {
            let stdin = std::io::stdin();
            if stdin.is_terminal() {
                note("Type the JSON, then press Ctrl-D on a line of its own.");
            }
            read(stdin.lock()).map_err(|why| format!("cannot read stdin: {why}"))?
        }
        Some(path) => {
            let file = File::open(path).map_err(|error| error.to_string());
            file.and_then(read).map_err(|why| format!("cannot read {path}: {why}"))?
        }
    };
    let json = content.trim_start_matches('\u{feff}').trim();
    if json.is_empty() {
        return Err(
            if text.is_empty() { EMPTY } else { "the input is empty; use null for no value" }.to_owned()
        );
    }
    RawValue::from_string(json.to_owned()).map_err(|error| {
        let is_text = json == text && !json.starts_with(['{', '[', '"']);
        let quote = if is_text { "; a JSON string needs its own quotes: '\"text\"'" } else { "" };
        format!("invalid JSON: {error}{quote}")
    })
}

fn read(from: impl Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("the input is larger than {} MiB", MAX_BYTES >> 20));
    }
    String::from_utf8(bytes)
        .map_err(|error| format!("byte {} is not UTF-8", error.utf8_error().valid_up_to() + 1))
}

/// A length of time in milliseconds, such as `500ms`, `30s`, `1h30m` or `7d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) i64);

impl Span {
    pub(crate) fn std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0.unsigned_abs())
    }

    /// The form that the API accepts: whole seconds, rounded up.
    pub(crate) fn seconds(self) -> String {
        format!("{}s", self.0.saturating_add(999) / 1_000)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected a duration such as 500ms, 30s, 5m, 1h30m or 7d".to_owned();
        let mut rest = text;
        let mut total: i64 = 0;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let number: i64 = rest[..digits].parse().map_err(|_| wrong())?;
            let after = &rest[digits..];
            let unit = after.bytes().take_while(u8::is_ascii_lowercase).count();
            let unit_ms: i64 = match &after[..unit] {
                "ms" => 1,
                "s" => 1_000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return Err(wrong()),
            };
            total = number.checked_mul(unit_ms).and_then(|ms| total.checked_add(ms)).ok_or_else(wrong)?;
            rest = &after[unit..];
        }
        if text.is_empty() { Err(wrong()) } else { Ok(Self(total)) }
    }
}

/// Parses a time into the form that the API accepts.
pub(crate) fn moment(text: &str) -> Result<String, String> {
    let parsed = flovyn_server::times::read(text).map(flovyn_server::times::iso);
    parsed.map_err(|_| "expected a time such as 2027-01-31T09:00:00Z".to_owned())
}

/// Parses a time, or a duration that is counted back from now.
pub(crate) fn past_moment(text: &str) -> Result<String, String> {
    if let Ok(Span(ms)) = text.parse() {
        return from_now(ms.saturating_neg());
    }
    moment(text).map_err(|why| format!("{why}, or a duration before now, such as 2h"))
}

/// The time that is this many milliseconds after now. Negative values are before now.
pub(crate) fn from_now(ms: i64) -> Result<String, String> {
    let then = jiff::Timestamp::from_millisecond(now_ms().saturating_add(ms));
    then.map(|time| time.to_string())
        .map_err(|_| "the time is out of range; use a shorter duration".to_owned())
}

/// A name that is not empty. An empty name usually comes from an unset shell variable.
pub(crate) fn name(text: &str) -> Result<String, String> {
    if text.is_empty() { Err(EMPTY.to_owned()) } else { Ok(text.to_owned()) }
}

/// An id of an execution, a task or a token. Only whole ids are accepted, because ids of the same minute share their
/// first characters.
pub(crate) fn id(text: &str) -> Result<String, String> {
    let digits: Vec<char> = name(text)?.chars().filter(|character| *character != '-').collect();
    if digits.len() == 32 && digits.iter().all(char::is_ascii_hexdigit) {
        return Ok(text.to_owned());
    }
    Err("expected a complete id such as 01a1e259-e972-72ed-ab63-ea102818ba7e".to_owned())
}

/// An execution: its id, or `key:` and its key.
pub(crate) fn execution(text: &str) -> Result<String, String> {
    match text.strip_prefix("key:") {
        Some(key) => name(key).map(|_| text.to_owned()),
        None => id(text),
    }
}

/// `NAME=VALUE`
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or_else(|| "expected NAME=VALUE, such as customer=ada".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        let read = |text: &str| text.parse::<Span>().ok().map(|span| span.0);
        assert_eq!(read("500ms"), Some(500));
        assert_eq!(read("30s"), Some(30_000));
        assert_eq!(read("1h30m"), Some(5_400_000));
        assert_eq!(read("7d"), Some(604_800_000));
        for wrong in
            ["", "5", "s", "5x", "-5s", "1.5h", "5 s", "99999999999999999d", "9999999999999d99d", "5sé"]
        {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
        assert_eq!(Span(1).seconds(), "1s");
        assert_eq!(Span(90_000).seconds(), "90s");
    }

    #[test]
    fn json_is_kept_unchanged() {
        assert_eq!(json(" {\"b\":1.50,\"a\":2} ").unwrap().get(), "{\"b\":1.50,\"a\":2}");
        let error = json("hello").unwrap_err();
        assert!(error.starts_with("invalid JSON: ") && error.contains("'\"text\"'"), "{error}");
        assert!(json("@/no/such/file").unwrap_err().contains("/no/such/file"));
        assert!(json("{} {}").is_err());
        assert_eq!(json("").unwrap_err(), EMPTY);
    }

    #[test]
    fn a_file_is_read_and_its_errors_name_the_cause() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input");
        let read = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            json(&format!("@{}", path.display())).map(|json| json.get().to_owned())
        };
        assert_eq!(read("\u{feff}{\"a\": 1}\n".as_bytes()), Ok("{\"a\": 1}".to_owned()));
        assert!(read(b" \n").unwrap_err().starts_with("the input is empty"));
        assert!(read(b"\"\xff\"").unwrap_err().ends_with("byte 2 is not UTF-8"));
        assert!(!read(b"hello").unwrap_err().contains("quotes"));
        let large = vec![b' '; usize::try_from(MAX_BYTES).unwrap() + 1];
        assert!(read(&large).unwrap_err().ends_with("the input is larger than 16 MiB"));
    }

    #[test]
    fn a_partial_id_is_refused() {
        for right in ["01a1e259-e972-72ed-ab63-ea102818ba7e", "01A1E259E97272EDAB63EA102818BA7E"] {
            assert_eq!(id(right), Ok(right.to_owned()));
        }
        for wrong in ["", "01a1e259", "lamp", "01a1e259-e972-72ed-ab63-ea102818ba7g"] {
            assert!(id(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn labels_have_a_name() {
        assert_eq!(label("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(label("a").is_err() && label("=b").is_err());
    }

    #[test]
    fn times_are_iso_8601_or_relative_to_now() {
        assert_eq!(moment("2027-01-31T09:00:00+01:00").unwrap(), "2027-01-31T08:00:00Z");
        assert_eq!(moment("9999-12-31T23:59:59Z").unwrap(), "9999-12-31T23:59:59Z");
        for wrong in ["tomorrow", "2027-01-31T09:00:00", "2027-01-31T09:00:00+25:00"] {
            assert!(moment(wrong).unwrap_err().contains("expected a time"), "{wrong}");
        }
        assert!(past_moment("2h").is_ok() && past_moment("2 hours").is_err());
        assert!(from_now(i64::MAX).is_err());
    }
}
