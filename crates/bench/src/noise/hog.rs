//! Programs that compete with the workload for one core or for the disk. Each is a separate process with the usual
//! priority.
//!
//! A hog ends when it is killed, when the benchmark that started it has ended, and by itself after `MAX_RUN`. Its
//! writes are limited too: the size of the scratch file, and the bytes per second.

use std::hint::black_box;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::Kind;
use crate::figures::{Line, cpu_seconds_of, written_bytes_of};

/// The most that a hog runs: longer than any run of a workload.
const MAX_RUN: Duration = Duration::from_secs(600);
/// Bytes written between two fsyncs.
const BLOCK_BYTES: usize = 32 << 10;
/// At this size the scratch file is overwritten from its beginning.
const FILE_BYTES: u64 = 64 << 20;
const MAX_BYTES_PER_SECOND: u64 = 128 << 20;
/// Computing steps between two checks of the clock.
const SPINS: u64 = 100_000;
const READY: &str = "ready";

/// A running hog. `None` in a quiet run.
#[derive(Debug)]
pub(super) struct Hog(Option<Running>);

#[derive(Debug)]
struct Running {
    process: Child,
    since: Instant,
    _folder: tempfile::TempDir,
}

impl Hog {
    /// Starts the hog: this program with another command. That command ends when its standard input is closed.
    pub(super) async fn start(kind: Kind) -> Result<Self, String> {
        if kind == Kind::Quiet {
            return Ok(Self(None));
        }
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let folder = crate::target::folder()?;
        let mut process = Command::new(own)
            .args(["noise-hog", "--kind", kind.name(), "--file"])
            .arg(folder.path().join("scratch"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("the noise process could not be started: {error}"))?;
        let output = process.stdout.take().ok_or("the noise process has no output")?;
        let first = BufReader::new(output).lines().next_line().await.map_err(|error| error.to_string())?;
        if first.as_deref() != Some(READY) {
            return Err("the noise process ended before it was ready".into());
        }
        Ok(Self(Some(Running { process, since: Instant::now(), _folder: folder })))
    }

    /// Ends the hog, and adds the CPU and disk writes that it used to the line.
    pub(super) async fn stop(&mut self, line: Line) -> Result<Line, String> {
        let Some(Running { process, since, .. }) = &mut self.0 else { return Ok(line) };
        let ended = process.try_wait().map_err(|error| error.to_string())?;
        let (Some(id), None) = (process.id(), ended) else {
            return Err("the noise process ended before the workload: choose fewer seconds".into());
        };
        let seconds = since.elapsed().as_secs_f64();
        let line = line
            .number("hog_cores", cpu_seconds_of(id) / seconds)
            .number("hog_bytes_per_s", written_bytes_of(id) / seconds);
        process.kill().await.map_err(|error| error.to_string())?;
        Ok(line)
    }
}

/// The main function of the noise process.
pub(crate) fn run(kind: Kind, file: &Path) -> Result<(), String> {
    let stops = Arc::new(AtomicBool::new(false));
    let when_alone = stops.clone();
    // This thread ends with the process. The pipe is closed when the benchmark ends, even if it crashes.
    std::thread::spawn(move || {
        // Nothing is ever written to the pipe, so an error means the same as the end of the input.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        when_alone.store(true, Ordering::Relaxed);
    });
    let begin = Instant::now();
    let keep_running = || !stops.load(Ordering::Relaxed) && begin.elapsed() < MAX_RUN;
    match kind {
        Kind::Quiet => Ok(()),
        Kind::Cpu => {
            crate::print_line(READY);
            spin(keep_running);
            Ok(())
        }
        Kind::Disk => {
            write(file, begin, keep_running).map_err(|error| format!("{}: {error}", file.display()))
        }
    }
}

fn spin(keep_running: impl Fn() -> bool) {
    let mut number = 1_u64;
    while keep_running() {
        for step in 0..SPINS {
            number = black_box(number.rotate_left(7) ^ step);
        }
    }
}

fn write(file: &Path, begin: Instant, keep_running: impl Fn() -> bool) -> std::io::Result<()> {
    let mut file = std::fs::File::create(file)?;
    let block = vec![7; BLOCK_BYTES];
    crate::print_line(READY);
    let mut written = 0;
    while keep_running() {
        if written % FILE_BYTES == 0 {
            file.seek(SeekFrom::Start(0))?;
        }
        file.write_all(&block)?;
        file.sync_data()?;
        written += block.len() as u64;
        if let Some(pause) = pause_for_rate(written, begin.elapsed()) {
            std::thread::sleep(pause);
        }
    }
    Ok(())
}

/// The pause that keeps the written bytes within the permitted rate. `None` if no pause is needed.
fn pause_for_rate(written: u64, elapsed: Duration) -> Option<Duration> {
    let earliest = Duration::from_secs_f64(written as f64 / MAX_BYTES_PER_SECOND as f64);
    earliest.checked_sub(elapsed).filter(|pause| !pause.is_zero())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn disk_writes_stay_within_the_rate_limit() {
        let second = Duration::from_secs(1);
        assert_eq!(pause_for_rate(MAX_BYTES_PER_SECOND, second), None);
        assert_eq!(pause_for_rate(MAX_BYTES_PER_SECOND * 3, second), Some(second * 2));
        assert_eq!(pause_for_rate(0, Duration::ZERO), None);
    }

    #[test]
    fn the_scratch_file_stays_within_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("scratch");
        let blocks = FILE_BYTES / BLOCK_BYTES as u64;
        let left = Cell::new(blocks + 3);
        let keep_running = || {
            left.set(left.get() - 1);
            left.get() > 0
        };
        // The start is long ago, so no pause is needed.
        let begin = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        write(&file, begin, keep_running).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().len(), FILE_BYTES);
    }

    #[test]
    fn a_hog_stops_on_request() {
        let asked = Cell::new(0);
        spin(|| {
            asked.set(asked.get() + 1);
            asked.get() < 3
        });
        assert_eq!(asked.get(), 3);
    }
}
