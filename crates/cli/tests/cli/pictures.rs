//! Screenshots of commands: a browser renders the terminal output of the real binary. With `UPDATE_SCREENSHOTS=1` the
//! screenshots of the documentation are updated.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use tempfile::tempdir;

use crate::ansi::html;
use crate::terminal::{Shown, plain};
use crate::world::{PATIENCE, Ran, flovyn};

const COLUMNS: u16 = 96;
/// In pixels of the page: the line height, the margin, and the width of a letter in this font.
const LINE: usize = 20;
const MARGIN: usize = 20;
const LETTER: f64 = 8.43;
const MOST_BYTES: u64 = 250_000;

/// A running demo, whose data directory is the default one.
struct Shop<'a> {
    folder: &'a Path,
}

impl Shop<'_> {
    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(flovyn(self.folder, arguments).output().unwrap())
    }

    /// Starts an order and waits until it has the given status.
    fn order(&self, input: &str, status: &str) -> String {
        let id = self.run(&["workflow", "start", "order", "--input", input]).id();
        let end = Instant::now() + PATIENCE;
        while self.run(&["workflow", "show", &id, "-o", "json"]).json()["status"] != status {
            assert!(Instant::now() < end, "order {id} is not {status}");
        }
        id
    }

    /// The prompt, the command and its output.
    fn typed(&self, arguments: &[&str], columns: u16) -> String {
        let shown = Shown::start(flovyn(self.folder, arguments), columns, &[]).end();
        format!("\x1b[1m$ flovyn {}\x1b[0m\n{shown}", arguments.join(" "))
    }
}

/// Checks the output, and takes a screenshot if requested.
fn take(name: &str, text: &str, columns: u16) {
    let text = text.replace('\r', "");
    let text = text.trim_end();
    let widest = plain(text).lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(widest <= usize::from(columns), "{name} is {widest} columns wide:\n{text}");
    let page = html(text).unwrap_or_else(|what| panic!("{name}: {what}"));
    if std::env::var_os("UPDATE_SCREENSHOTS").is_none() {
        return;
    }
    let folder = tempdir().unwrap();
    let (source, picture) = (folder.path().join("page.html"), folder.path().join("picture.png"));
    std::fs::write(&source, page).unwrap();
    let width = (widest as f64 * LETTER).ceil() as usize + 2 * MARGIN;
    let height = text.lines().count() * LINE + 2 * MARGIN;
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--force-device-scale-factor=1.5",
        ])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("--window-size={width},{height}"))
        .arg(format!("--screenshot={}", picture.display()))
        .arg(format!("file://{}", source.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::metadata(&picture).unwrap().len();
    assert!(bytes < MOST_BYTES, "{name} has {bytes} bytes");
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    std::fs::copy(&picture, images.join(format!("cli-{name}.png"))).unwrap();
}

#[test]
fn commands_look_well_in_a_terminal() {
    let folder = tempdir().unwrap();
    let arguments = ["demo", "--data-dir", ".flovyn", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];
    let mut demo = Shown::start(flovyn(folder.path(), &arguments), COLUMNS, &[]);
    demo.until("Press Ctrl-C");
    let told = demo.text.replace('\r', "");
    let id = plain(&told).split_once("ID=").unwrap().1[..36].to_owned();
    let shop = Shop { folder: folder.path() };

    let (story, _) = told.split_once("Server and worker keep running").unwrap();
    let story = story.rsplit_once("\n\n").map_or(story, |(story, _)| story).to_owned();
    take("demo", &format!("\x1b[1m$ flovyn demo\x1b[0m\n{}", without_addresses(&story)), COLUMNS);

    shop.order(r#"{"id": "A-1043", "item": "lamp", "price": 40}"#, "WAITING");
    let cancelled = shop.order(r#"{"id": "A-1044", "item": "kettle", "price": 25}"#, "WAITING");
    assert_eq!(shop.run(&["workflow", "cancel", &cancelled, "--reason", "changed my mind"]).code, 0);
    shop.order(r#"{"item": "a teapot without a price"}"#, "FAILED");
    shop.run(&["workflow", "start", "invoice", "--queue", "office"]).id();

    let list = shop.typed(&["workflow", "list"], COLUMNS);
    for status in ["COMPLETED", "WAITING", "FAILED", "CANCELLED", "PENDING"] {
        assert!(list.contains(status), "{status} is not in:\n{list}");
    }
    take("workflow-list", &list, COLUMNS);
    let show = shop.typed(&["workflow", "show", &id], COLUMNS);
    assert!(show.contains("charge-card #1 failed") && show.contains("approval (promise)"), "{show}");
    take("workflow-show", &show, COLUMNS);
    let help = shop.typed(&["workflow", "--help"], COLUMNS);
    take("workflow-help", &help, COLUMNS);
}

/// Replaces the ports and the directory of the test.
fn without_addresses(story: &str) -> String {
    let names = ["Web UI", "REST", "gRPC", "Data"];
    let is_kept = |line: &&str| !names.iter().any(|name| plain(line).trim_start().starts_with(name));
    story.lines().filter(is_kept).collect::<Vec<_>>().join("\n").replace("\n\n\n", "\n\n")
}
