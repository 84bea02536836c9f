//! ChromeDriver as a process, with one session of Chromium. WebDriver is JSON over HTTP; this module has the few calls
//! that tests need.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::Http;

/// The JSON key of an element, defined by the WebDriver standard.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
const ARGUMENTS: &[&str] = &[
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--window-size=1440,900",
];

#[derive(Debug)]
pub(crate) struct Driver {
    process: Child,
    /// Kept open, because a driver that cannot write its output ends.
    _output: BufReader<ChildStdout>,
    http: Http,
    session: String,
    _profile: TempDir,
}

impl Driver {
    pub(crate) async fn start() -> Self {
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver: install Debian's chromium and chromium-driver, or run `cargo xtask test`");
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let http = Http::new(SocketAddr::from(([127, 0, 0, 1], port(&mut output))));
        let profile = tempfile::tempdir().unwrap();
        let mut arguments: Vec<String> = ARGUMENTS.iter().map(|argument| (*argument).to_owned()).collect();
        arguments.push(format!("--user-data-dir={}", profile.path().display()));
        let mut driver = Self { process, _output: output, http, session: String::new(), _profile: profile };
        let wanted = json!({ "browserName": "chrome", "goog:chromeOptions": { "args": arguments } });
        let made =
            driver.call("POST", "/session", json!({ "capabilities": { "alwaysMatch": wanted } })).await;
        driver.session = made.expect("a browser")["sessionId"].as_str().unwrap().to_owned();
        driver
    }

    /// The value of an answer, or the error.
    async fn call(&self, method: &str, path: &str, body: Value) -> Result<Value, String> {
        let headers = [("content-type", "application/json")];
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let mut answer = self.http.send(method, path, &headers, body).await;
        let value = answer.body["value"].take();
        if answer.status == 200 {
            Ok(value)
        } else {
            Err(format!("{}: {}", value["error"], value["message"]))
        }
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Result<Value, String> {
        self.call("POST", &format!("/session/{}{path}", self.session), body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, String> {
        self.call("GET", &format!("/session/{}{path}", self.session), Value::Null).await
    }

    /// A command of Chromium's own protocol (CDP).
    pub(crate) async fn chromium(&self, command: &str, parameters: Value) {
        let body = json!({ "cmd": command, "params": parameters });
        self.post("/goog/cdp/execute", body).await.unwrap();
    }

    /// The id of an element, found by a CSS selector.
    pub(crate) async fn element(&self, selector: &str) -> Result<String, String> {
        let found = self.post("/element", json!({ "using": "css selector", "value": selector })).await?;
        Ok(format!("/element/{}", found[ELEMENT].as_str().unwrap_or_default()))
    }

    /// Closes the browser and then its driver.
    pub(crate) async fn stop(mut self) {
        let _ = self.call("DELETE", &format!("/session/{}", self.session), json!({})).await;
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads the port from "ChromeDriver was started successfully on port 34567."
fn port(output: &mut BufReader<ChildStdout>) -> u16 {
    let mut line = String::new();
    while output.read_line(&mut line).unwrap() > 0 {
        if let Some((_, port)) =
            line.trim_end().trim_end_matches('.').rsplit_once("started successfully on port ")
        {
            return port.parse().unwrap();
        }
        line.clear();
    }
    panic!("chromedriver did not start");
}
