//! Shows why an execution or task does not run, and the command that helps.

use super::facts::Facts;
use super::words::{age, moment};
use crate::client::answers::WaitingOn;

/// Maximum number of reasons shown. The others are only counted.
const MOST: usize = 10;

impl Facts {
    /// Adds the reasons why the item waits, and the next command to run. `id` is the id of the item.
    pub(crate) fn add_waiting<'a>(
        &mut self,
        waiting: impl IntoIterator<Item = &'a WaitingOn>,
        id: &str,
        now_ms: i64,
    ) {
        let waiting: Vec<&WaitingOn> = waiting.into_iter().collect();
        for one in waiting.iter().take(MOST) {
            let name = if matches!(one.kind.as_str(), "RUNNING" | "CLEAN_UP") { "Now" } else { "Waits for" };
            self.add(name, &told(one, now_ms));
        }
        if waiting.len() > MOST {
            self.add("", &format!("and {} more", waiting.len() - MOST));
        }
        let mut kinds = Vec::new();
        for one in waiting {
            if !kinds.contains(&&one.kind) {
                kinds.push(&one.kind);
                self.add_some("Next", next_step(one, id).as_deref());
            }
        }
    }
}

fn told(waiting: &WaitingOn, now_ms: i64) -> String {
    let until = waiting.until_ms.map(|ms| format!(", until {} ({})", moment(ms), age(ms, now_ms)));
    let id = if waiting.id.is_empty() { String::new() } else { format!(" [{}]", waiting.id) };
    format!("{}: {}{id}{}", waiting.kind, waiting.message, until.unwrap_or_default())
}

/// The next command to run. `None`: the wait ends without help, or its kind is unknown to this version.
fn next_step(waiting: &WaitingOn, id: &str) -> Option<String> {
    let WaitingOn { id: other, name, .. } = waiting;
    Some(match waiting.kind.as_str() {
        "TASK" => {
            format!("see the task with: flovyn task show {other}; list workers with: flovyn worker list")
        }
        "CHILD" => format!("see what the child waits for with: flovyn workflow show {other}"),
        "PROMISE" => format!("answer it with: flovyn promise resolve {other} --value JSON"),
        "SIGNAL" => format!("send one with: flovyn workflow signal {id} NAME --value JSON"),
        "QUEUE_PAUSED" if is_plain(name) => {
            format!("resume the queue with: flovyn queue resume {name}")
        }
        "QUEUE_PAUSED" => "resume the queue with: flovyn queue resume QUEUE".to_owned(),
        "NO_WORKER" | "NO_STREAM_WORKER" => {
            "start a worker that implements it; list workers with: flovyn worker list".to_owned()
        }
        "FREE_WORKER" => "show the queued work with: flovyn queue list".to_owned(),
        "RETRY_DELAY" => format!("see what failed with: flovyn task attempts {id}"),
        "ACTIVATION_BACKOFF" => {
            format!(
                "fix the workflow's code: a worker of another build takes it at once; retry now with: \
                 flovyn workflow release {id}"
            )
        }
        "CLEAN_UP" => format!("force-stop it with: flovyn workflow terminate {id}"),
        _ => return None,
    })
}

/// Whether a shell takes this name literally. Names may come from other users.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Paint;

    fn waiting(kind: &str, id: &str) -> WaitingOn {
        let (kind, id) = (kind.to_owned(), id.to_owned());
        WaitingOn { kind, id, name: "n".into(), message: "why".into(), until_ms: None }
    }

    fn lines(waiting: &[WaitingOn]) -> Vec<String> {
        let mut facts = Facts::new("order", "WAITING", None);
        facts.add_waiting(waiting, "7", 0);
        facts.lines(Paint::plain())[1..].to_vec()
    }

    #[test]
    fn each_kind_has_its_next_step() {
        let found = lines(&[waiting("TASK", "1"), waiting("TASK", "2"), waiting("TIMER", "")]);
        let expected = [
            "  Waits for  TASK: why [1]",
            "  Waits for  TASK: why [2]",
            "  Waits for  TIMER: why",
            "  Next       see the task with: flovyn task show 1; list workers with: flovyn worker list",
        ];
        assert_eq!(found, expected);
        assert_eq!(lines(&[waiting("RUNNING", "")]), ["  Now        RUNNING: why"]);
    }

    #[test]
    fn a_name_that_a_shell_would_obey_is_not_in_a_command() {
        let next = |name: &str| {
            let waiting = WaitingOn { name: name.into(), ..waiting("QUEUE_PAUSED", "") };
            next_step(&waiting, "7").unwrap().rsplit_once(' ').unwrap().1.to_owned()
        };
        assert_eq!(next("media-1.low"), "media-1.low");
        for name in ["x; rm y", "$(x)", "--all", "a b", "a\nb", ""] {
            assert_eq!(next(name), "QUEUE", "{name:?}");
        }
    }

    #[test]
    fn of_many_the_first_are_shown() {
        let many: Vec<WaitingOn> = (0..25).map(|id| waiting("TIMER", &id.to_string())).collect();
        let found = lines(&many);
        assert_eq!((found.len(), found[10].as_str()), (11, "             and 15 more"));
    }
}
