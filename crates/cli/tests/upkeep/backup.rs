//! Backs up a server's database during writes, and restores it elsewhere.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use flovyn_store::open;
use serde_json::Value;

use crate::upgrade::assert_sound;
use crate::{assert_code, fixture, flovyn, run};

/// A server process, ended on drop.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Kills the process, like `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.wait();
    }

    pub(crate) fn wait(&mut self) {
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn dev(data_dir: &Path) -> Running {
    let address = "127.0.0.1:0";
    let data_dir = data_dir.to_str().unwrap();
    let mut child =
        flovyn(&["dev", "--data-dir", data_dir, "--http", address, "--grpc", address]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let running = Running(child);
    assert!(lines.any(|line| line.unwrap().contains("Press Ctrl-C")), "it does not serve");
    running
}

/// Starts a workflow over REST and returns its id once the start is acknowledged.
fn start_workflow(credentials: &Value) -> String {
    let address = credentials["http_url"].as_str().unwrap().strip_prefix("http://").unwrap();
    let token = credentials["api_token"].as_str().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "POST /api/tenants/default/workflows/load/trigger HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer \
         {token}\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 201"), "{answer}");
    let body: Value = serde_json::from_str(body).unwrap();
    body["workflowExecutionId"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_has_every_start_acknowledged_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let [data_dir, restored, file] = ["data", "restored", "copy.db"].map(|name| folder.path().join(name));
    let server = dev(&data_dir);
    let credentials = std::fs::read_to_string(data_dir.join("credentials.json")).unwrap();
    let credentials: Value = serde_json::from_str(&credentials).unwrap();

    let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let (enough, has_enough) = mpsc::channel();
    let load: Vec<_> = (0..4)
        .map(|_| {
            let (stop, acknowledged) = (Arc::clone(&stop), Arc::clone(&acknowledged));
            let (credentials, enough) = (credentials.clone(), enough.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let id = start_workflow(&credentials);
                    let mut all = acknowledged.lock().unwrap();
                    all.push(id);
                    if all.len() == 100 {
                        enough.send(()).unwrap();
                    }
                }
            })
        })
        .collect();
    tokio::task::spawn_blocking(move || has_enough.recv().unwrap()).await.unwrap();
    let before: Vec<String> = acknowledged.lock().unwrap().clone();
    let [data_dir, restored, file] = [&data_dir, &restored, &file].map(|path| path.to_str().unwrap());
    assert_code(0, &run(&["backup", file, "--data-dir", data_dir]).await);
    // The doctor also works while the server runs.
    assert_code(0, &run(&["doctor", "--data-dir", data_dir]).await);
    stop.store(true, Ordering::SeqCst);
    load.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(acknowledged.lock().unwrap().len() > before.len(), "the server went on meanwhile");

    let again = run(&["backup", file, "--data-dir", data_dir]).await;
    assert_code(1, &again);
    assert!(again.2.contains("already exists"), "{}", again.2);
    let repair = run(&["doctor", "--data-dir", data_dir, "--repair"]).await;
    assert_code(2, &repair);
    assert!(repair.2.contains("another process has the database open"), "{}", repair.2);
    let held = run(&["restore", file, "--data-dir", data_dir]).await;
    assert_code(1, &held);
    assert!(held.2.contains("is not empty"), "{}", held.2);
    drop(server);

    assert_code(0, &run(&["restore", file, "--data-dir", restored]).await);
    let url = fixture::sqlite_url(&Path::new(restored).join("flovyn.db"));
    assert_sound(&url).await;
    let rows = open::store(&url).await.unwrap().snapshot().await.unwrap();
    let kept: std::collections::BTreeSet<String> =
        rows.executions.iter().map(|row| row.id.to_string()).collect();
    let lost: Vec<&String> = before.iter().filter(|id| !kept.contains(*id)).collect();
    assert!(lost.is_empty(), "{} of {} are lost", lost.len(), before.len());
    let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().contains("draft")), "no draft is left");
}

#[tokio::test]
async fn a_damaged_copy_is_not_restored() {
    let folder = tempfile::tempdir().unwrap();
    let path = fixture::sqlite(folder.path());
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8_192].fill(0xA5);
    std::fs::write(&path, bytes).unwrap();
    let target = folder.path().join("restored");
    let done = run(&["restore", path.to_str().unwrap(), "--data-dir", target.to_str().unwrap()]).await;
    assert_code(1, &done);
    assert!(!target.join("flovyn.db").exists());
}
