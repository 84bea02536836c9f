//! Transcripts of commands and their output, compared with files. Ids, times, durations and addresses differ from run
//! to run, so each is replaced by a name.

use std::path::{Path, PathBuf};

use crate::world::{Ran, World};

pub(crate) struct Transcript<'a> {
    world: &'a World,
    text: String,
}

impl<'a> Transcript<'a> {
    pub(crate) fn new(world: &'a World) -> Self {
        Self { world, text: String::new() }
    }

    /// Runs a command and records it: stderr after `! `, and an exit code other than 0.
    pub(crate) fn run(&mut self, arguments: &[&str]) -> Ran {
        let ran = self.world.run(arguments);
        let shown: Vec<String> = arguments.iter().map(|argument| quoted(argument)).collect();
        self.text.push_str(&format!("$ flovyn {}\n{}", shown.join(" "), ran.out));
        for line in ran.err.lines() {
            self.text.push_str(format!("! {line}").trim_end());
            self.text.push('\n');
        }
        if ran.code != 0 {
            self.text.push_str(&format!("(exit code {})\n", ran.code));
        }
        self.text.push('\n');
        ran
    }

    pub(crate) fn check(self, name: &str) {
        // The worker of these tests runs in this process, on a host that may have no name.
        let mut text = self.text.replace(&format!(" {} ", std::process::id()), " PROCESS ");
        if let Some(host) = std::env::var("HOSTNAME").ok().filter(|host| !host.is_empty()) {
            text = text.replace(&format!(" {host} "), " ");
        }
        let found = normalised(&text, self.world.folder());
        let file = file(name);
        if std::env::var_os("FLOVYN_TEST_UPDATE").is_some() {
            std::fs::write(&file, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        if found == expected {
            return;
        }
        let line = found.lines().zip(expected.lines()).position(|(found, expected)| found != expected);
        let line = line.unwrap_or(found.lines().count().min(expected.lines().count())) + 1;
        panic!("{} differs from line {line} on; found:\n\n{found}", file.display());
    }
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cli/snapshots").join(format!("{name}.snap"))
}

fn quoted(argument: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=:./@".contains(&byte);
    if !argument.is_empty() && argument.bytes().all(plain) {
        argument.to_owned()
    } else {
        format!("'{argument}'")
    }
}

/// Normalises the text, so that equal runs give equal texts.
pub(crate) fn normalised(text: &str, folder: &Path) -> String {
    let text = text.replace(&folder.display().to_string(), "FOLDER");
    let mut ids: Vec<String> = Vec::new();
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let begins = !out.ends_with(|last: char| last.is_ascii_alphanumeric());
        let found = if begins {
            volatile(rest, out.ends_with("  ") || out.ends_with('(') || out.ends_with('\n'), &mut ids)
        } else {
            None
        };
        let (length, name) = found.unwrap_or_else(|| (first.len_utf8(), first.to_string()));
        out.push_str(&name);
        rest = &rest[length..];
    }
    let lines = out.lines().map(|line| {
        let line = without_bars(line);
        // The width of a column depends on values that are replaced.
        let margin = line.len() - line.trim_start().len();
        let words: Vec<&str> = line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
        if !words.is_empty() && words.iter().all(|word| *word == "TOOK") {
            return "  (axis)".to_owned();
        }
        format!("{}{}", &line[..margin.min(7)], words.join("  ")).trim_end().to_owned()
    });
    lines.map(|line| line + "\n").collect()
}

/// The length of a variable part at the beginning of the text, and its replacement. `first`: a column begins here.
fn volatile(text: &str, first: bool, ids: &mut Vec<String>) -> Option<(usize, String)> {
    if let Some(id) = text.get(..36).filter(|id| is_id(id)) {
        let known = ids.iter().position(|known| known == id).unwrap_or_else(|| {
            ids.push(id.to_owned());
            ids.len() - 1
        });
        return Some((36, format!("ID-{}", known + 1)));
    }
    // The end of an id.
    if first
        && let Some(end) = text.get(..12)
        && end.bytes().all(|byte| byte.is_ascii_hexdigit())
        && text[12..].starts_with(' ')
    {
        return Some((12, "ID-END".to_owned()));
    }
    if text
        .get(..11)
        .is_some_and(|day| day.starts_with("20") && day.ends_with('T') && day.as_bytes()[4] == b'-')
    {
        return Some((text.find('Z')? + 1, "TIME".to_owned()));
    }
    if let Some(token) = text.strip_prefix("fwt_") {
        let length = token.bytes().take_while(u8::is_ascii_alphanumeric).count();
        return (length > 0).then(|| (4 + length, "fwt_TOKEN".to_owned()));
    }
    if let Some(port) = text.strip_prefix("127.0.0.1:") {
        let length = port.bytes().take_while(u8::is_ascii_digit).count();
        return Some((10 + length, "ADDRESS".to_owned()));
    }
    if first && text.starts_with("now") && !text[3..].starts_with(|next: char| next.is_alphanumeric()) {
        return Some((3, "AGE".to_owned()));
    }
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let unit = &text[digits..];
    if digits == 0 {
        return None;
    }
    for ago in ["s ago", "m ago"] {
        if unit.starts_with(ago) {
            return Some((digits + ago.len(), "AGE".to_owned()));
        }
    }
    ([" ms", " s"]
        .into_iter()
        .find(|name| unit.starts_with(name) && !unit[name.len()..].starts_with(char::is_alphabetic)))
    .map(|name| (digits + name.len(), "TOOK".to_owned()))
}

fn is_id(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

const BARS: &str = "─█×▶░▒▓◆";

/// The length of a bar in a timeline depends on the machine, so only its presence counts. Short pauses before it may
/// be invisible.
fn without_bars(line: &str) -> String {
    let mut out = String::new();
    for character in line.chars() {
        let is_bar = BARS.contains(character);
        if character == ' ' && out.ends_with(|last| BARS.contains(last)) {
            // The number of blanks depends on the length of the duration behind them.
            out.push(' ');
        }
        if character != '·' && !(is_bar && out.ends_with(character)) {
            out.push(character);
        }
    }
    out
}

#[test]
fn what_differs_from_run_to_run_has_a_name() {
    let (a, b) = ("01a1e259-e972-72ed-ab63-ea102818ba7e", "01a1e259-e972-72ed-ab63-ea102818ba7f");
    let text = format!(
        "{a}  {b} {a}\n  order    ────  412 ms\n  order    ──── 1412 ms\n  nowhere  3s ago\nnow  2026-11-16T03:15:05.714Z http://127.0.0.1:4711/x\nHello 12 pm /tmp/x/y\nfwt_abc fwt_ only now.\n"
    );
    let expected = "ID-1  ID-2 ID-1\n  order  ─  TOOK\n  order  ─  TOOK\n  nowhere  AGE\nAGE  TIME http://ADDRESS/x\nHello 12 pm FOLDER/y\nfwt_TOKEN fwt_ only now.\n";
    assert_eq!(normalised(&text, Path::new("/tmp/x")), expected);
}
