//! The format of a page: `sh` blocks, each with at most one `curl` line. After each `curl` line follows its answer: a
//! line with only the status, such as `` `201 Created` ``. Unless only the status matters, a block of `json` (parts
//! of the answer) or `text` (its lines) follows. No other block may be `json`, because it would not be checked.

use serde_json::Value;

use crate::answer::Body;

pub(crate) struct Page {
    pub(crate) steps: Vec<Step>,
    /// All commands, in order.
    pub(crate) scripts: String,
}

pub(crate) struct Step {
    /// The position on the page.
    pub(crate) line: usize,
    pub(crate) script: String,
    pub(crate) answer: Option<Answer>,
}

pub(crate) struct Answer {
    pub(crate) status: String,
    pub(crate) body: Body,
}

impl Step {
    fn asks(&self) -> bool {
        self.script.contains("curl ")
    }

    /// The command changes nothing, so it may be repeated.
    pub(crate) fn only_looks(&self) -> bool {
        let mut words = self.script.split_whitespace();
        self.asks() && !words.any(|word| ["-d", "-X", "--data", "--json"].contains(&word))
    }
}

/// A line that contains only a status.
fn status(line: &str) -> Option<&str> {
    let inner = line.strip_prefix('`')?.strip_suffix('`')?;
    let (code, reason) = inner.split_once(' ')?;
    let is_status = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
    (is_status && !reason.contains('`')).then_some(code)
}

impl Page {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut steps: Vec<Step> = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            let number = index + 1;
            let wrong = |what: &str| Err(format!("{number}: {what}"));
            if let Some(code) = status(line) {
                let Some(step) = steps.last_mut().filter(|step| step.asks() && step.answer.is_none()) else {
                    return wrong("a status of which nobody asked");
                };
                step.answer = Some(Answer { status: code.to_owned(), body: Body::Any });
            }
            let Some(language) = line.strip_prefix("```") else { continue };
            let block: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```")).collect();
            match language {
                "sh" => {
                    let step = Step { line: number, script: block.join("\n"), answer: None };
                    if step.script.matches("curl ").count() > 1 {
                        return wrong("one curl line in a block: each has its answer");
                    }
                    if steps.last().is_some_and(|last| last.asks() && last.answer.is_none()) {
                        return wrong("the answer to the curl line before this is missing");
                    }
                    steps.push(step);
                }
                "json" | "text" => {
                    let open = steps.last_mut().and_then(|step| step.answer.as_mut());
                    let Some(answer) = open.filter(|answer| answer.body == Body::Any) else {
                        match language {
                            "json" => return wrong("this answers no curl line"),
                            _ => continue,
                        }
                    };
                    answer.body = match language {
                        "json" => Body::Json(
                            serde_json::from_str::<Value>(&block.join("\n"))
                                .map_err(|error| format!("{number}: {error}"))?,
                        ),
                        _ => Body::Lines(block.iter().map(|line| (*line).to_owned()).collect()),
                    };
                }
                _ => {}
            }
        }
        if steps.last().is_some_and(|last| last.asks() && last.answer.is_none()) {
            return Err("the last curl line has no answer".to_owned());
        }
        let scripts = steps.iter().map(|step| step.script.as_str()).collect::<Vec<_>>().join("\n");
        Ok(Self { steps, scripts })
    }
}

#[test]
fn what_is_not_checked_is_no_page() {
    let error = |text: &str| Page::read(text).err().unwrap_or_default();
    let asked = "```sh\ncurl $API/queues\n```\n";
    let answered = format!("{asked}`200 OK`\n```json\n{{}}\n```\n");
    assert_eq!(error(&answered), "");
    assert_eq!(error(asked), "the last curl line has no answer");
    assert_eq!(error(&format!("{asked}{answered}")), "4: the answer to the curl line before this is missing");
    assert_eq!(error(&format!("{answered}```json\n{{}}\n```\n")), "8: this answers no curl line");
    assert_eq!(error(&format!("{answered}`200 OK`\n")), "8: a status of which nobody asked");
    assert_eq!(
        error("```sh\ncurl $API/a\ncurl $API/b\n```\n"),
        "1: one curl line in a block: each has its answer"
    );
}
