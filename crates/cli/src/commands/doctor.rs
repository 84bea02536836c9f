//! `flovyn doctor`: runs the database's own integrity check, then checks the data against the promises, page by page.
//! With `--repair` it also repairs orphans. Findings go to stdout; progress and the summary go to stderr.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use flovyn_engine::Limits;
use flovyn_engine::invariants::{Promised, Violation};
use flovyn_engine::reply::Mended;
use flovyn_service::doctor::{self, Examined};
use flovyn_store::integrity::{Damage, Integrity};
use flovyn_store::{Store, open};
use serde_json::{Value, json};

use crate::local::DatabaseArgs;
use crate::terminal::{say, say_again};

/// Exit code: there are findings left.
const FOUND: u8 = 1;
/// Exit code: the database could not be checked.
const UNKNOWN: u8 = 2;

/// The code for findings of the database's own check.
const DAMAGED: &str = "FLV0079";
const RESTORE: &str = "stop the server, keep a copy, and restore a backup: \
                       https://github.com/flovyn/flovyn/blob/main/docs/guide/backup.md#a-damaged-database";

/// Maximum number of findings listed in the JSON document. The counts include all findings.
const JSON_FINDINGS: usize = 10_000;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn doctor
  flovyn doctor --config /etc/flovyn/server.toml --output json
  flovyn doctor --database-url sqlite:.flovyn/flovyn.db --repair")]
pub(crate) struct Doctor {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Repair orphans: add the missing queue entry or alarm. An embedded database must not be in use.
    #[arg(long)]
    repair: bool,
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// One paragraph per finding.
    Text,
    /// One JSON document.
    Json,
}

/// The findings so far.
#[derive(Default)]
struct Report {
    rows: BTreeMap<&'static str, usize>,
    found: BTreeMap<String, usize>,
    mended: usize,
    /// The number of findings that remain.
    left: usize,
    /// The result of the database's own check.
    integrity: Integrity,
    /// Only for JSON. For people, each finding is printed at once.
    findings: Vec<Value>,
}

impl Doctor {
    pub(crate) async fn run(self) -> ExitCode {
        match self.examine().await {
            Ok(0) => ExitCode::SUCCESS,
            Ok(_) => ExitCode::from(FOUND),
            Err(what) => {
                say(&format!("flovyn: {what}"));
                ExitCode::from(UNKNOWN)
            }
        }
    }

    /// Returns the number of findings that remain.
    async fn examine(&self) -> Result<usize, String> {
        let url = self.database.url()?;
        let mut report = Report { integrity: integrity(&url).await?, ..Report::default() };
        if !report.integrity.damages.is_empty() {
            report.damaged(self.output)?;
            report.end(&open::without_password(&url), self.output)?;
            return Ok(report.left);
        }
        let (store, database) = self.open(&url).await?;
        let limits = Arc::new(Limits::default());
        let mut doctor = doctor::Doctor::new(database);
        while let Some(examined) = doctor.next().await.map_err(|error| error.to_string())? {
            report.count(&examined);
            for finding in &examined.findings {
                let mended = match store.as_deref().filter(|_| doctor::can_mend(finding)) {
                    Some(store) => {
                        Some(doctor::mend(store, &limits, finding).await.map_err(|error| error.to_string())?)
                    }
                    None => None,
                };
                report.add(finding, mended.as_deref(), self.output)?;
            }
        }
        report.end(&open::without_password(&url), self.output)?;
        Ok(report.left)
    }

    async fn open(
        &self,
        url: &str,
    ) -> Result<(Option<Arc<dyn Store>>, Arc<dyn flovyn_store::Inspect>), String> {
        if self.repair {
            let store = open::as_is(url).await.map_err(|error| error.to_string())?;
            return Ok((Some(store.clone()), store));
        }
        Ok((None, open::inspect(url).await.map_err(|error| error.to_string())?))
    }
}

/// Runs the database's own check. This comes first, because on a damaged database no other check is reliable.
async fn integrity(url: &str) -> Result<Integrity, String> {
    let shows = std::io::stderr().is_terminal();
    let on_progress = Arc::new(move |progress| {
        if shows {
            say_again(&format!("checking the integrity of the database: {progress}"));
        }
    });
    let checked = open::integrity(url, on_progress).await;
    if shows {
        say_again("");
    }
    checked.map_err(|error| error.to_string())
}

impl Report {
    fn damaged(&mut self, output: Output) -> Result<(), String> {
        for damage in std::mem::take(&mut self.integrity.damages) {
            *self.found.entry(DAMAGED.to_owned()).or_default() += 1;
            self.left += 1;
            if output == Output::Text {
                let Damage { place, page, what } = damage;
                let page = page.map_or_else(String::new, |page| format!(", page {page}"));
                print(&format!("{DAMAGED} {place}{page}\n   {what}\n   to do: {RESTORE}\n"))?;
            } else {
                self.findings.push(json!({
                    "code": DAMAGED,
                    "place": damage.place,
                    "page": damage.page,
                    "what": damage.what,
                    "todo": RESTORE,
                    "mended": null,
                }));
            }
        }
        Ok(())
    }

    fn count(&mut self, examined: &Examined) {
        *self.rows.entry(examined.part).or_default() += examined.rows;
        if std::io::stderr().is_terminal() {
            say_again(&self.looked_at());
        }
    }

    fn looked_at(&self) -> String {
        let counts: Vec<String> = self.rows.iter().map(|(part, rows)| format!("{rows} {part}")).collect();
        let own = match self.integrity.checked.as_str() {
            "" => String::new(),
            checked => format!("checked {checked}, "),
        };
        format!("{own}examined {}", counts.join(", "))
    }

    fn add(&mut self, finding: &Violation, mended: Option<&[Mended]>, output: Output) -> Result<(), String> {
        let code = format!("{:?}", finding.promise);
        *self.found.entry(code.clone()).or_default() += 1;
        self.mended += usize::from(mended.is_some());
        self.left += usize::from(mended.is_none());
        let done = mended.map(|done| match done {
            [] => "nothing to repair".to_owned(),
            done => done.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        });
        if output == Output::Json && self.findings.len() >= JSON_FINDINGS {
            return Ok(());
        }
        if output == Output::Json {
            self.findings.push(json!({
                "code": code,
                "tenantId": finding.tenant_id.to_string(),
                "subject": finding.subject.to_string(),
                "what": finding.message,
                "todo": advice(finding),
                "mended": done,
            }));
            return Ok(());
        }
        let then =
            done.map_or_else(|| format!("to do: {}", advice(finding)), |done| format!("mended: {done}"));
        print(&format!(
            "{code} {} (tenant {})\n   {}\n   {then}\n",
            finding.subject, finding.tenant_id, finding.message
        ))
    }

    fn end(&mut self, url: &str, output: Output) -> Result<(), String> {
        if std::io::stderr().is_terminal() {
            say_again("");
        }
        if output == Output::Json {
            let document = json!({
                "database": url,
                "checked": self.integrity.checked,
                "notes": self.integrity.notes,
                "examined": self.rows,
                "found": self.found,
                "mended": self.mended,
                "left": self.left,
                "findings": self.findings,
            });
            return print(&format!("{document:#}\n"));
        }
        self.integrity.notes.iter().for_each(|note| say(note));
        if self.found.contains_key(DAMAGED) {
            say(&format!("{url}: the database is damaged, so its content was not checked"));
        } else {
            say(&format!("{url}: {}", self.looked_at()));
        }
        let found: Vec<String> =
            self.found.iter().map(|(code, count)| format!("{count} of {code}")).collect();
        match (found.is_empty(), self.mended) {
            (true, _) => say("no problems found"),
            (false, 0) => say(&format!("found {}", found.join(", "))),
            (false, mended) => {
                say(&format!("found {}; mended {mended}, {} left", found.join(", "), self.left))
            }
        }
        Ok(())
    }
}

fn print(text: &str) -> Result<(), String> {
    match std::io::stdout().write_all(text.as_bytes()) {
        // If the reader closed the pipe, the exit code still counts.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write the findings: {error}"))
        }
        _ => Ok(()),
    }
}

/// What an operator can do about the finding.
fn advice(finding: &Violation) -> &'static str {
    match finding.promise {
        Promised::P6 => "run `flovyn doctor --repair`, which queues it or sets its alarm again",
        Promised::P2 | Promised::P13 => "decide which of the two continues, and terminate the other",
        Promised::P3 | Promised::P5 | Promised::P7 | Promised::P8 | Promised::P11 | Promised::P12 => {
            "keep a copy of the database and report it; restore a backup, or terminate the execution"
        }
        Promised::P4 => "keep a copy of the database and report it; check what the task did outside",
    }
}
