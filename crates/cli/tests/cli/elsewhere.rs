//! The address belongs to another program than a Flovyn server, or the server answers slowly.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use tempfile::tempdir;

use crate::snapshot::Transcript;
use crate::world::{MISSING, PATIENCE, World, flovyn};

/// A server that gives these answers, one per connection. Before each answer except the first it waits for the test.
struct Elsewhere {
    url: String,
    thread: JoinHandle<()>,
}

impl Elsewhere {
    fn start(answers: Vec<String>, go_on: Option<Receiver<()>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            for (number, answer) in answers.into_iter().enumerate() {
                let (mut stream, _) = listener.accept().unwrap();
                assert_ne!(stream.read(&mut [0; 4096]).unwrap(), 0);
                if let Some(go_on) = go_on.as_ref().filter(|_| number > 0) {
                    go_on
                        .recv_timeout(PATIENCE)
                        .expect("the first answer is printed before the second is there");
                }
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        Self { url, thread }
    }

    fn end(self) {
        self.thread.join().unwrap();
    }
}

fn answer(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn what_is_not_flovyn_is_not_believed() {
    let world = World::new();
    let mut typed = Transcript::new(&world);
    let page = "<!DOCTYPE html>\n<html>\n  <title>Welcome</title>\n</html>";
    let moved = "301 Moved Permanently\r\nLocation: https://flovyn.example.com/";
    let answers = [
        answer("200 OK\r\nContent-Type: text/html", page),
        answer("404 Not Found\r\nContent-Type: text/html", page),
        answer("502 Bad Gateway", "<h1>\x1b[31mNo"),
        answer(moved, ""),
        answer("200 OK\r\nContent-Type: application/json", r#"{"executions": 7}"#),
        "SSH-2.0-OpenSSH_9.9\r\n".to_owned(),
        String::new(),
    ];
    for answer in answers {
        let elsewhere = Elsewhere::start(vec![answer], None);
        let ran = typed.run(&["workflow", "list", "--url", &elsewhere.url, "--token", "x"]);
        elsewhere.end();
        assert!(ran.out.is_empty() && !ran.err.contains('\x1b'), "{}", ran.err);
    }
    let elsewhere = Elsewhere::start(vec![answer("200 OK\r\nContent-Type: text/html", page)], None);
    typed.run(&["task", "logs", "--follow", MISSING, "--url", &elsewhere.url, "--token", "x"]);
    elsewhere.end();
    let grpc = world.credential("grpc_url");
    typed.run(&["workflow", "list", "--url", &grpc, "--token", "x"]);
    let tls = world.credential("http_url").replace("http://", "https://");
    typed.run(&["workflow", "list", "--url", &tls, "--token", "x"]);
    typed.check("elsewhere");
}

/// As if the server was stopped or is starting: a command that follows retries.
#[test]
fn a_safe_connection_that_is_closed_is_one_that_cannot_be_had_now() {
    let folder = tempdir().unwrap();
    let elsewhere = Elsewhere::start(vec![String::new()], None);
    let url = elsewhere.url.replace("http://", "https://");
    let ran = flovyn(folder.path(), &["workflow", "list", "--url", &url, "--token", "x"]).output().unwrap();
    elsewhere.end();
    assert_eq!(ran.status.code(), Some(6), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// Sends the second answer only after the first line of output, and returns the whole output.
fn first_line_first(folder: &Path, arguments: &[&str], answers: Vec<String>) -> String {
    let (tell, go_on) = channel();
    let elsewhere = Elsewhere::start(answers, Some(go_on));
    let mut command = flovyn(folder, arguments);
    command.args(["--url", &elsewhere.url, "--token", "x"]).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut out: BufReader<ChildStdout> = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    out.read_line(&mut text).unwrap();
    while tell.send(()).is_ok() && !elsewhere.thread.is_finished() {
        std::thread::yield_now();
    }
    elsewhere.end();
    out.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    text
}

#[test]
fn the_first_line_does_not_wait_for_the_last_page() {
    let folder = tempdir().unwrap();
    let json = |body: String| answer("200 OK\r\nContent-Type: application/json", &body);
    let execution = r#"{"id":"1","kind":"order","status":"RUNNING","taskQueue":"default","prioritySeconds":0,"createdAt":"2027-01-31T09:00:00Z","lastSequence":2}"#;
    let executions = |next: &str| json(format!(r#"{{"executions":[{execution}],"nextCursor":{next}}}"#));
    let event =
        r#"{"sequence":1,"eventType":"SIGNAL_RECEIVED","timestampMs":1,"origin":"EXTERNAL","data":{}}"#;
    let events =
        |next: &str| json(format!(r#"{{"createdAtMs":1,"events":[{event}],"nextSinceSequence":{next}}}"#));
    let list = vec![executions("\"c\""), executions("null")];
    let history = vec![events("1"), events("null")];
    let first = |arguments: &[&str], answers: &Vec<String>| {
        first_line_first(folder.path(), arguments, answers.clone())
    };

    let text = first(&["workflow", "list"], &list);
    assert_eq!(text.lines().filter(|line| line.contains("order")).count(), 2, "{text}");
    assert_eq!(text.lines().count(), 3, "the names of the columns stand once: {text}");
    let text = first(&["workflow", "events", MISSING], &history);
    assert_eq!(text.lines().count(), 3, "{text}");
    for arguments in [&["workflow", "list", "-o", "json"][..], &["workflow", "events", MISSING, "-o", "json"]]
    {
        let answers = if arguments[1] == "list" { &list } else { &history };
        let text = first(arguments, answers);
        let items: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(items.len(), 2, "{text}");
    }
    let tasks = json(r#"{"tasks":[]}"#.to_owned());
    let whole = [vec![json(execution.to_owned())], history, vec![tasks, json("{}".to_owned())]].concat();
    let text = first(&["workflow", "export", MISSING], &whole);
    let exported: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(exported["events"].as_array().unwrap().len(), 2, "{text}");
}

/// The answer to the advance comes after the command has polled the progress three times.
#[test]
fn a_clock_that_takes_its_time_says_how_far_it_is() {
    let folder = tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut advance, mut asked) = (None, 0_i64);
        while asked < 3 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap();
            if request[..length].starts_with(b"POST /_/clock/advance ") {
                advance = Some(stream);
                continue;
            }
            asked += 1;
            let head = format!("200 OK\r\nflovyn-now-ms: {}", asked * 86_400_000);
            stream.write_all(answer(&head, "{}").as_bytes()).unwrap();
        }
        let done = answer("200 OK", r#"{"nowMs": 864000000}"#);
        advance.unwrap().write_all(done.as_bytes()).unwrap();
    });
    let mut command = flovyn(folder.path(), &["clock", "advance", "9d"]);
    command.args(["--url", &url, "--tenant", "t", "--token", "x"]);
    let ran = crate::world::Ran::of(command.output().unwrap());
    server.join().unwrap();
    assert_eq!((ran.code, ran.out.as_str()), (0, "1970-01-11T00:00:00.000Z\n"), "{}", ran.err);
    let told: Vec<&str> = ran.err.lines().collect();
    assert_eq!(told[0], "the clock has reached 1970-01-03T00:00:00.000Z");
    assert_eq!(told[1], "the clock has reached 1970-01-04T00:00:00.000Z");
}
