//! `flovyn demo`, run as a process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;
use tempfile::{TempDir, tempdir};

/// Any free port, for tests that run in parallel.
const FREE: [&str; 4] = ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"];

/// Uses a separate directory for temporary files.
fn demo(temporary: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flovyn"));
    command.arg("demo").args(arguments).env("TMPDIR", temporary.path()).current_dir(temporary.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

/// The address on a line of the introduction.
fn address<'a>(text: &'a str, name: &str) -> &'a str {
    let line =
        text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{text}"));
    let (_, rest) = line.split_once("http://").unwrap();
    rest.split(['/', ',']).next().unwrap()
}

fn nobody_listens(text: &str) {
    for name in ["REST", "gRPC"] {
        let address = address(text, name);
        assert!(TcpStream::connect(address).is_err(), "something still listens on {address}");
    }
}

fn get(url: &str, header: &str) -> Value {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let header = header.trim_end();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {address}\r\n{header}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"))
}

/// A running demo, stopped on drop.
struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
    text: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(temporary: &TempDir, arguments: &[&str]) -> Self {
        let mut child = demo(temporary, arguments).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr, text: String::new() }
    }

    fn until(&mut self, part: &str) {
        while !self.text.contains(part) {
            assert_ne!(self.stderr.read_line(&mut self.text).unwrap(), 0, "it ended: {}", self.text);
        }
    }

    /// Sends Ctrl-C. Returns the exit code, stdout and stderr.
    fn interrupt(mut self) -> (Option<i32>, String, String) {
        let killed = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        self.stderr.read_to_string(&mut self.text).unwrap();
        let mut printed = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        (self.child.wait().unwrap().code(), printed, std::mem::take(&mut self.text))
    }
}

#[test]
fn an_order_from_its_trigger_to_its_result() {
    let temporary = tempdir().unwrap();
    // The port is already in use, for example by `flovyn dev`.
    let somebody = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = somebody.local_addr().unwrap().to_string();
    let arguments = ["--exit", "--http", taken.as_str(), "--grpc", "127.0.0.1:0"];
    let output = demo(&temporary, &arguments).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");

    // Only data on stdout.
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["approved_by"], "Grace", "{result}");
    assert_eq!(result["payment"], "749 EUR", "{result}");
    assert_eq!(result["parcel"], "1 espresso machine", "{result}");

    // The progress is plain text, because stderr is not a terminal.
    let (told, timeline) = text.split_once("Timeline").unwrap();
    assert!(told.contains(&format!("{taken} is in use")) && address(told, "REST") != taken, "{told}");
    assert!(told.contains("attempt 1 failed: the bank did not answer"), "{told}");
    assert!(told.contains("WAITING: promise approval"), "{told}");
    let steps = [
        "order",
        "reserve-stock",
        "check-fraud",
        "charge-card #1 failed",
        "charge-card #2",
        "approval (promise)",
        "packing (timer)",
        "ship-parcel",
    ];
    for step in steps {
        let line = timeline.lines().find(|line| line.trim_start().starts_with(&format!("{step} ")));
        let line = line.unwrap_or_else(|| panic!("{step} is not in:{timeline}"));
        assert!(line.ends_with(" ms"), "{line}");
    }
    assert!(!text.contains('\x1b'), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");

    // The temporary directory is deleted.
    nobody_listens(&text);
    assert!(is_empty(temporary.path()));
}

#[test]
fn it_stays_up_for_a_look_and_ends_with_ctrl_c() {
    let temporary = tempdir().unwrap();
    let mut running = Running::start(&temporary, &FREE);
    running.until("Press Ctrl-C to stop");
    assert!(!is_empty(temporary.path()));
    // The parts of the printed commands are correct.
    let value = |name: &str| {
        let line = running.text.lines().find_map(|line| line.trim_start().strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} is not in {}", running.text)).to_owned()
    };
    let header = std::fs::read_to_string(value("AUTH=@")).unwrap();
    let execution = get(&format!("{}/workflow-executions/{}", value("API="), value("ID=")), &header);
    assert_eq!(execution["status"], "COMPLETED", "{execution}");

    let (code, printed, text) = running.interrupt();
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), execution["output"]);
    nobody_listens(&text);
    assert!(is_empty(temporary.path()));
}

#[test]
fn interrupted_half_way_it_leaves_nothing_behind() {
    let temporary = tempdir().unwrap();
    let mut running = Running::start(&temporary, &[&FREE[..], &["--exit"]].concat());
    running.until("attempt 1");
    let (code, printed, text) = running.interrupt();
    assert_eq!((code, printed.as_str()), (Some(1), ""), "{text}");
    assert!(text.ends_with("flovyn: interrupted before the order was completed\n"), "{text}");
    nobody_listens(&text);
    assert!(is_empty(temporary.path()));
}

#[test]
fn a_data_directory_is_kept_and_one_in_use_is_left_alone() {
    let temporary = tempdir().unwrap();
    let arguments = [&FREE[..], &["--data-dir", "kept"]].concat();
    let mut first = Running::start(&temporary, &arguments);
    first.until("attempt 1");
    let credentials = temporary.path().join("kept/credentials.json");
    let before = std::fs::read(&credentials).unwrap();
    let second = demo(&temporary, &arguments).output().unwrap();
    let text = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{text}");
    assert!(text.starts_with("flovyn: ") && text.contains("locked") && text.contains("--data-dir"), "{text}");
    assert_eq!(std::fs::read(&credentials).unwrap(), before);
    first.interrupt();
    assert!(credentials.exists());

    let file = temporary.path().join("file");
    std::fs::write(&file, "").unwrap();
    let blocked = demo(&temporary, &["--data-dir", "file/below"]).output().unwrap();
    let text = String::from_utf8(blocked.stderr).unwrap();
    assert_eq!((blocked.status.code(), blocked.stdout.len()), (Some(1), 0), "{text}");
    assert!(text.contains("file/below") && text.contains("--data-dir"), "{text}");
}
