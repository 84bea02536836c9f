//! `flovyn dev` and `flovyn server`, run as processes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails right there")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use serde_json::Value;
use tempfile::tempdir;

/// A running `flovyn dev`, stopped on drop.
struct Dev {
    child: Child,
    stderr: BufReader<ChildStderr>,
    banner: String,
}

impl Drop for Dev {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn flovyn(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flovyn"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn dev_arguments(data_dir: &Path) -> [&str; 7] {
    let data_dir = data_dir.to_str().unwrap();
    ["dev", "--data-dir", data_dir, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
}

/// Starts the server and reads its output until it serves.
fn dev(data_dir: &Path, more: &[&str]) -> Dev {
    let mut child = flovyn(&dev_arguments(data_dir)).args(more).spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let mut dev = Dev { child, stderr, banner: String::new() };
    while !dev.banner.contains("Press Ctrl-C") {
        assert_ne!(dev.stderr.read_line(&mut dev.banner).unwrap(), 0, "it ended: {}", dev.banner);
    }
    dev
}

/// Sends SIGTERM. Returns the exit code and the rest of its output.
fn terminate(mut dev: Dev) -> (Option<i32>, String) {
    let killed = Command::new("kill").args(["-TERM", &dev.child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let mut rest = String::new();
    dev.stderr.read_to_string(&mut rest).unwrap();
    (dev.child.wait().unwrap().code(), rest)
}

#[test]
fn an_api_key_goes_to_stdout_and_advice_to_stderr() {
    let output = flovyn(&["api-key", "generate"]).output().unwrap();
    assert!(output.status.success());
    let stdout = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = stdout.lines().collect();
    let [key, hash] = lines[..] else { panic!("{stdout}") };
    let key = key.strip_prefix("key = \"").and_then(|rest| rest.strip_suffix('"')).unwrap();
    let hash = hash.strip_prefix("sha256 = \"").and_then(|rest| rest.strip_suffix('"')).unwrap();
    let expected: String = flovyn_auth::hash_api_key(key).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(key.starts_with("flv_") && key.len() == 68 && hash == expected, "{stdout}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("[[auth.api_keys]]") && !stderr.contains(key), "{stderr}");
}

fn credentials(data_dir: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(data_dir.join("credentials.json")).unwrap()).unwrap()
}

fn request(credentials: &Value, request: &str, token: &str, body: &str) -> String {
    let address = credentials["http_url"].as_str().unwrap().strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn error_of(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "errors do not go to stdout");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("flovyn: ") && text.trim_end().lines().count() == 1, "{text}");
    text
}

#[test]
fn a_second_start_keeps_the_tokens() {
    let folder = tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let first = dev(&data_dir, &[]);
    let before = credentials(&data_dir);
    let tenant_id = before["tenant_id"].as_str().unwrap();
    assert!(first.banner.contains(tenant_id), "clients of the public protocol need it: {}", first.banner);
    for key in ["tenant", "tenant_id", "http_url", "grpc_url", "worker_token", "api_token"] {
        let value = before[key].as_str().unwrap();
        assert!(!value.is_empty(), "{key}");
        assert!(key == "tenant_id" || first.banner.contains(value), "{key}: {}", first.banner);
    }
    for file in ["credentials.json", "jwt.secret"] {
        assert_eq!(mode(&data_dir.join(file)), 0o600, "{file}");
    }
    assert!(request(&before, "GET /_/metrics", "", "").starts_with("HTTP/1.1 200"));
    let no_clock =
        request(&before, "POST /_/clock/advance", before["api_token"].as_str().unwrap(), "{\"ms\": 1}");
    assert!(no_clock.starts_with("HTTP/1.1 404"), "{no_clock}");
    let (code, rest) = terminate(first);
    assert_eq!(code, Some(0), "{rest}");

    let second = dev(&data_dir, &[]);
    let after = credentials(&data_dir);
    for key in ["tenant", "tenant_id", "worker_token", "api_token"] {
        assert_eq!(before[key], after[key], "{key}");
    }
    assert_eq!(terminate(second).0, Some(0));
}

#[test]
fn a_virtual_clock_takes_either_token() {
    let folder = tempdir().unwrap();
    let server = dev(folder.path(), &["--virtual-clock"]);
    let credentials = credentials(folder.path());
    let now_ms = |token: &str| {
        let answer = request(&credentials, "POST /_/clock/advance", token, "{\"ms\": 86400000}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        serde_json::from_str::<Value>(body).unwrap()["nowMs"].as_i64().unwrap()
    };
    let first = now_ms(credentials["api_token"].as_str().unwrap());
    let second = now_ms(credentials["worker_token"].as_str().unwrap());
    assert_eq!(second - first, 86_400_000, "it moves only when told");
    assert!(
        request(&credentials, "POST /_/clock/advance", "wrong", "{\"ms\": 1}").starts_with("HTTP/1.1 401")
    );
    assert_eq!(terminate(server).0, Some(0));
}

#[test]
fn errors_say_what_to_do() {
    let (folder, other) = (tempdir().unwrap(), tempdir().unwrap());
    let server = dev(folder.path(), &[]);
    let before = credentials(folder.path());
    let locked = error_of(flovyn(&dev_arguments(folder.path())).output().unwrap());
    assert!(locked.contains("locked") && locked.contains("--data-dir"), "{locked}");
    assert_eq!(credentials(folder.path()), before, "the running server's file is left alone");

    let taken = before["http_url"].as_str().unwrap().strip_prefix("http://").unwrap();
    let other = other.path().to_str().unwrap();
    let arguments = ["dev", "--data-dir", other, "--http", taken, "--grpc", "127.0.0.1:0"];
    let in_use = error_of(flovyn(&arguments).output().unwrap());
    assert!(in_use.contains(taken) && in_use.contains("--http"), "{in_use}");

    let open = error_of(flovyn(&["dev", "--data-dir", other, "--http", "0.0.0.0:0"]).output().unwrap());
    assert!(open.contains("--http") && open.contains("flovyn server"), "{open}");
    let missing = error_of(flovyn(&["server", "--config", "/no/such/file.toml"]).output().unwrap());
    assert!(missing.contains("/no/such/file.toml"), "{missing}");
    assert_eq!(terminate(server).0, Some(0));
}
