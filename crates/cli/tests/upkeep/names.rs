//! A second server on the same database file, under any name of the file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use flovyn_testkit::send_signal;
use serde_json::Value;

use crate::backup::dev;
use crate::{assert_code, run};

async fn start(data_dir: &Path) -> (Option<i32>, String, String) {
    let data_dir = data_dir.to_str().unwrap();
    run(&["dev", "--data-dir", data_dir, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_is_told_who_has_the_file_by_whatever_name_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let [first, hard, soft, whole] = ["first", "hard", "soft", "whole"].map(|name| folder.path().join(name));
    let mut server = dev(&first);
    let credentials = fs::read_to_string(first.join("credentials.json")).unwrap();
    let credentials: Value = serde_json::from_str(&credentials).unwrap();
    for data_dir in [&hard, &soft] {
        fs::create_dir(data_dir).unwrap();
    }
    fs::hard_link(first.join("flovyn.db"), hard.join("flovyn.db")).unwrap();
    symlink(first.join("flovyn.db"), soft.join("flovyn.db")).unwrap();
    symlink(&first, &whole).unwrap();
    let address = |key: &str| credentials[key].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
    for data_dir in &[first.clone(), hard.clone(), soft.clone(), whole] {
        let refused = start(data_dir).await;
        assert_code(1, &refused);
        for part in [format!("process {}", server.id()), address("http_url"), address("grpc_url")] {
            assert!(refused.2.contains(&part), "{}: {part} is not in {}", data_dir.display(), refused.2);
        }
        // Read-only commands may open the file under a name that leads to the log.
        let exit = if *data_dir == hard { 2 } else { 0 };
        assert_code(exit, &run(&["doctor", "--data-dir", data_dir.to_str().unwrap()]).await);
    }

    // A log with the first name is left behind.
    server.kill();
    assert!(first.join("flovyn.db-wal").exists());
    let refused = start(&hard).await;
    assert_code(1, &refused);
    assert!(refused.2.contains("left open as"), "{}", refused.2);
    let mut server = dev(&soft);
    send_signal(server.id(), "TERM").await;
    server.wait();
    // Closed in order, so any name is possible.
    drop(dev(&hard));
}
