//! A progress bar on stderr for commands that wait. If stderr is not a terminal, nothing is drawn.

use std::collections::HashMap;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::words::printable;
use crate::client::answers::{LogEvent, Task};
use crate::terminal::Paint;

const REDRAW: Duration = Duration::from_millis(200);
/// The progress value of a finished task.
const PART: u64 = 1_000;

/// The progress of an execution: the finished part of the tasks that it has scheduled so far.
#[derive(Debug)]
pub(crate) struct WaitingBar {
    bar: ProgressBar,
    /// The progress of each task, up to [`PART`].
    tasks: HashMap<String, u64>,
}

impl WaitingBar {
    pub(crate) fn new(name: &str) -> Self {
        let bar = ProgressBar::new(0);
        // The template is valid; if not, the default style is used.
        let style = ProgressStyle::with_template("{spinner} {prefix} [{bar:24}] {elapsed}  {wide_msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let ticks = Paint::for_stderr().sign("⠁⠂⠄⡀⢀⠠⠐⠈ ", "|/-\\ ");
        bar.set_style(style.progress_chars("=> ").tick_chars(ticks));
        bar.set_prefix(printable(name));
        bar.enable_steady_tick(REDRAW);
        Self { bar, tasks: HashMap::new() }
    }

    pub(crate) fn event(&mut self, event: &LogEvent, words: &str) {
        let id = event.text("taskExecutionId").into_owned();
        match event.event_type.as_str() {
            "TASK_SCHEDULED" => _ = self.tasks.insert(id, 0),
            "TASK_COMPLETED" | "TASK_FAILED" => _ = self.tasks.insert(id, PART),
            _ => {}
        }
        self.show(words);
    }

    pub(crate) fn task(&mut self, task: &Task) {
        // The value may be outside 0 to 1.
        let done = (task.progress.clamp(0.0, 1.0) * 1_000.0) as u64;
        let part = self.tasks.entry(task.id.clone()).or_default();
        *part = (*part).max(done);
        let details = task.progress_details.as_deref().unwrap_or_default();
        self.show(&format!("{} {:.0} % {details}", task.task_type, task.progress * 100.0));
    }

    pub(crate) fn show(&self, words: &str) {
        self.bar.set_length(self.tasks.len() as u64 * PART);
        self.bar.set_position(self.tasks.values().sum());
        self.bar.set_message(printable(words));
    }
}

impl Drop for WaitingBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
