//! Who may report on a claim: the one table that decides whether a report counts.
//!
//! A report is everything that a worker sends about work that it has claimed: a result, a failure, an activation's
//! commands, a heartbeat, progress, a log line, task state.
//!
//! | token | claim | reporter | verdict |
//! |---|---|---|---|
//! | the current one | running | anybody | holder |
//! | the last accepted one | any | sends what was accepted | repeat |
//! | the last accepted one | any | sends something else | stale |
//! | any other | any | anybody | stale |
//! | none | any | sends what was accepted, and numbers it so that it cannot be a new report | repeat |
//! | none | running, of a plain client | identified as the claimer | holder |
//! | none | running, of a plain client | identified as somebody else | repeat if it sends what was accepted, else stale |
//! | none | running, of a plain client, no claim was lost lately | not identified | ambiguous if it sends what was accepted, else holder |
//! | none | running, of a plain client, a claim was lost lately | not identified | repeat if it sends what was accepted, else stale |
//! | none | running, of a worker with tokens | anybody | repeat if it sends what was accepted, else stale |
//! | none | lost, of a plain client; the task waits for its next attempt | identified as the claimer, or not identified and nobody else ever claimed the task | repeat if it sends what was accepted, else late |
//! | none | not running, otherwise | anybody | repeat if it sends what was accepted, else stale |
//!
//! A late success counts: the next attempt is taken out of the queue, and the attempt that was counted as lost has succeeded.
//! At most one outcome is accepted, since a task that has ended waits for nothing. Anything else that is late is stale: that
//! attempt has been counted as a failure. Of an execution nothing is late: a step from an old history is run again.
//!
//! A claim is lost when it ends without a report: its lease or a timeout has expired. Its worker may still be alive and
//! report late: on an execution for [`LATE_STEP_MS`], on a task at any time. A client is identified by the worker that it
//! names, then by its connection. Another credential than the claimer's is somebody else. A holder's batch of commands is
//! stale too if it is numbered from an older history than the one accepted last.
//!
//! An ambiguous report is refused: to count it could end somebody else's claim, and to answer it like the one before could
//! tell its sender that a report has counted which has not. An activation that only suspends is an exception, since many of
//! them in a row are alike: `may_lack_events` in `rules/submit.rs` decides whether the execution waits or runs again. See
//! `docs/de-duplication.md`.

use crate::code::{Code, Refusal};
use crate::ids::WorkerId;
use crate::planted::{Bug, planted};
use crate::request::Peer;
use crate::state::{Execution, ExecutionStatus, Task, TaskStatus};

/// How long the worker of a lost claim of an execution may still report. A reporter whom nothing identifies must wait for so
/// long. Not without a limit: an execution has to go on, however its clients are connected.
pub(crate) const LATE_STEP_MS: i64 = 10 * 60_000;

/// The claim of an execution or a task, as its row remembers it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimOf<'a> {
    pub(crate) running: bool,
    /// It ended without a report, the task waits for its next attempt, and nobody has claimed it since.
    pub(crate) lost: bool,
    /// No other claim has ever been delivered.
    pub(crate) first: bool,
    /// Made by a client of the public protocol, which may report without a token.
    pub(crate) plain: bool,
    pub(crate) epoch: i64,
    /// 0: no report has been accepted yet.
    pub(crate) accepted_epoch: i64,
    /// Content of the report that was accepted last. `None`: it came from a worker with tokens.
    pub(crate) accepted_digest: Option<i64>,
    pub(crate) credential: Option<i64>,
    pub(crate) connection: Option<i64>,
    pub(crate) worker: Option<&'a str>,
    pub(crate) session: Option<WorkerId>,
    pub(crate) lost_ms: Option<i64>,
    /// For how long after that its worker may still report.
    pub(crate) late_ms: i64,
    /// The planted bug that lets every report of this running work count.
    pub(crate) bug: Bug,
}

/// What a report is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It comes from the holder of the current claim.
    Holder,
    /// It comes late, and nobody has the work: a success counts.
    Late,
    /// It was accepted before: the same answer again, and no effect.
    Repeat,
    /// It has the content of the report accepted last, and nothing says whether it is that one again or the holder's.
    Ambiguous,
    /// It comes from somebody who does not hold the claim. It changes nothing.
    Stale(Why),
}

/// Why a report is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its token is not the current one, or nothing is running.
    NotCurrent,
    /// Its token was accepted, with another content.
    OtherContent,
    /// It has no token, and the claim was made by somebody else.
    OtherReporter,
    /// Its commands are numbered from an older history than the last accepted ones.
    OlderHistory,
    /// It has no token, nothing says who sent it, and the worker of an earlier claim may have.
    Unidentified,
}

impl<'a> From<&'a Execution> for ClaimOf<'a> {
    fn from(row: &'a Execution) -> Self {
        Self {
            running: row.status == ExecutionStatus::Running,
            // A step from an old history could harm: it is run again.
            lost: false,
            first: false,
            plain: row.plain,
            epoch: row.epoch,
            accepted_epoch: row.accepted_epoch,
            accepted_digest: row.accepted_digest,
            credential: row.claim_credential,
            connection: row.claim_connection,
            worker: row.worker.as_deref(),
            session: row.session,
            lost_ms: row.claim_lost_ms,
            late_ms: LATE_STEP_MS,
            bug: Bug::StaleActivationAccepted,
        }
    }
}

impl<'a> From<&'a Task> for ClaimOf<'a> {
    fn from(row: &'a Task) -> Self {
        Self {
            running: row.status == TaskStatus::Running,
            // A claim that was given back has no worker, and one that was reported has been accepted.
            lost: row.status == TaskStatus::Pending
                && row.claim_lost_ms.is_some()
                && row.worker.is_some()
                && row.epoch > row.accepted_epoch,
            first: row.execution_count == 1,
            plain: row.plain,
            epoch: row.epoch,
            accepted_epoch: row.accepted_epoch,
            accepted_digest: row.accepted_digest,
            credential: row.claim_credential,
            connection: row.claim_connection,
            worker: row.worker.as_deref(),
            session: row.session,
            lost_ms: row.claim_lost_ms,
            // A task ends after some attempts in any case, and its worker may have taken days.
            late_ms: i64::MAX,
            bug: Bug::StaleReportAccepted,
        }
    }
}

/// The content of a report, as far as it takes to recognise it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) digest: i64,
    /// Its sender never sends the same content for two claims.
    pub(crate) unique: bool,
}

/// Judges a report. `content`: of reports that can be repeated.
pub(crate) fn judge(
    claim: ClaimOf<'_>,
    token: Option<i64>,
    peer: Option<&Peer>,
    content: Option<Content>,
    now_ms: i64,
) -> Verdict {
    if claim.running && (planted(claim.bug) || token == Some(claim.epoch)) {
        return Verdict::Holder;
    }
    let same_content = content.is_some_and(|content| claim.accepted_digest == Some(content.digest));
    if let Some(token) = token {
        return match claim.accepted_epoch > 0 && token == claim.accepted_epoch {
            // A worker with tokens reports once for each claim: no content is kept for it.
            true if same_content || claim.accepted_digest.is_none() => Verdict::Repeat,
            true => Verdict::Stale(Why::OtherContent),
            false => Verdict::Stale(Why::NotCurrent),
        };
    }
    if same_content && content.is_some_and(|content| content.unique) {
        return Verdict::Repeat;
    }
    let identified = identify(&claim, peer);
    if claim.running && claim.plain && (identified == Some(true) || planted(Bug::TokenlessReportAccepted)) {
        return Verdict::Holder;
    }
    let lost = claim.lost_ms.is_some_and(|at| now_ms.saturating_sub(at) < claim.late_ms);
    let may_hold = claim.running && claim.plain && identified.is_none() && !lost;
    // Its sender has claimed it last, and nobody since.
    let late = claim.lost && claim.plain && identified.unwrap_or(claim.first);
    match identified {
        _ if may_hold && same_content => Verdict::Ambiguous,
        _ if may_hold => Verdict::Holder,
        _ if same_content => Verdict::Repeat,
        _ if late => Verdict::Late,
        _ if !(claim.running && claim.plain) => Verdict::Stale(Why::NotCurrent),
        Some(_) => Verdict::Stale(Why::OtherReporter),
        None => Verdict::Stale(Why::Unidentified),
    }
}

/// Whether the reporter made the claim. `None`: nothing says so.
fn identify(claim: &ClaimOf<'_>, peer: Option<&Peer>) -> Option<bool> {
    let peer = peer?;
    if let Some(named) = peer.worker.as_deref() {
        let is_session = claim.session.is_some_and(|id| id.to_string() == named);
        return Some(is_session || claim.worker == Some(named));
    }
    if let (Some(claimed), Some(reports)) = (claim.credential, peer.credential)
        && claimed != reports
    {
        return Some(false);
    }
    is_on_its_connection(*claim, Some(peer)).then_some(true)
}

/// Whether a report comes on the connection that made the claim, so that its client has received the claim.
pub(crate) fn is_on_its_connection(claim: ClaimOf<'_>, peer: Option<&Peer>) -> bool {
    claim.connection.is_some() && claim.connection == peer.and_then(|peer| peer.connection)
}

/// The refusal of a stale report, which says what to do.
pub(crate) fn refuse(what: &str, status: &str, claim: ClaimOf<'_>, token: Option<i64>, why: Why) -> Refusal {
    let epoch = claim.epoch;
    let message = match (why, token) {
        (Why::OtherContent, _) => format!("claim {epoch} of {what} was reported with another content before"),
        (Why::OtherReporter, _) => {
            format!(
                "claim {epoch} of {what} belongs to another worker: this report has no token and changes nothing"
            )
        }
        (Why::Unidentified, _) => format!(
            "nothing says that this report belongs to claim {epoch} of {what}, and the worker of an earlier claim may \
             have sent it: send claim_token, or report on the connection that polled"
        ),
        (Why::OlderHistory, _) => {
            format!("these commands follow an older history of {what} than the ones accepted last")
        }
        (Why::NotCurrent, Some(token)) => {
            format!("claim {token} of {what} is not current: {status} at claim {epoch}")
        }
        (Why::NotCurrent, None) => format!("{what} is {status} and no token-less client has claimed it"),
    };
    Refusal::new(Code::StaleClaim, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: ClaimOf<'static> = ClaimOf {
        running: true,
        lost: false,
        first: false,
        plain: true,
        epoch: 3,
        accepted_epoch: 2,
        accepted_digest: Some(20),
        credential: Some(1),
        connection: Some(7),
        worker: Some("w"),
        session: None,
        lost_ms: None,
        late_ms: LATE_STEP_MS,
        bug: Bug::StaleReportAccepted,
    };

    fn peer(credential: i64, connection: Option<i64>, worker: Option<&str>) -> Peer {
        Peer { credential: Some(credential), connection, worker: worker.map(Into::into) }
    }

    #[test]
    fn the_table_of_reports() {
        let (same, other, unknown) = (peer(1, Some(7), None), peer(2, Some(7), None), peer(1, Some(8), None));
        let (named, misnamed) = (peer(2, None, Some("w")), peer(1, Some(7), Some("v")));
        let lost = ClaimOf { lost_ms: Some(1_000), ..CLAIM };
        let idle = ClaimOf { running: false, ..CLAIM };
        let stream = ClaimOf { plain: false, ..CLAIM };
        let late = ClaimOf { running: false, lost: true, lost_ms: Some(1_000), ..CLAIM };
        let late_stream = ClaimOf { plain: false, ..late };
        let (new, old) = (Some(30), Some(20));
        let stale = Verdict::Stale;
        for (claim, token, by, digest, expected) in [
            (CLAIM, Some(3), &other, new, Verdict::Holder),
            (CLAIM, Some(2), &other, old, Verdict::Repeat),
            (CLAIM, Some(2), &other, new, stale(Why::OtherContent)),
            (ClaimOf { accepted_digest: None, ..CLAIM }, Some(2), &same, new, Verdict::Repeat),
            (CLAIM, Some(1), &same, old, stale(Why::NotCurrent)),
            (ClaimOf { accepted_epoch: 0, ..CLAIM }, Some(0), &same, old, stale(Why::NotCurrent)),
            (idle, Some(3), &same, new, stale(Why::NotCurrent)),
            (CLAIM, None, &same, new, Verdict::Holder),
            (CLAIM, None, &same, old, Verdict::Holder),
            (lost, None, &same, new, Verdict::Holder),
            (lost, None, &named, new, Verdict::Holder),
            (CLAIM, None, &misnamed, new, stale(Why::OtherReporter)),
            (CLAIM, None, &other, new, stale(Why::OtherReporter)),
            (CLAIM, None, &other, old, Verdict::Repeat),
            (CLAIM, None, &unknown, new, Verdict::Holder),
            (CLAIM, None, &unknown, old, Verdict::Ambiguous),
            (lost, None, &unknown, new, stale(Why::Unidentified)),
            (lost, None, &unknown, old, Verdict::Repeat),
            (stream, None, &same, new, stale(Why::NotCurrent)),
            (stream, None, &same, old, Verdict::Repeat),
            (idle, None, &same, old, Verdict::Repeat),
            (idle, None, &same, new, stale(Why::NotCurrent)),
            (idle, None, &same, None, stale(Why::NotCurrent)),
            (late, None, &same, new, Verdict::Late),
            (late, None, &named, new, Verdict::Late),
            (late, None, &unknown, new, stale(Why::NotCurrent)),
            (ClaimOf { first: true, ..late }, None, &unknown, new, Verdict::Late),
            (ClaimOf { first: true, ..late }, None, &other, new, stale(Why::NotCurrent)),
            (late, None, &other, new, stale(Why::NotCurrent)),
            (late, None, &misnamed, new, stale(Why::NotCurrent)),
            (late, None, &same, old, Verdict::Repeat),
            (late, Some(3), &same, new, stale(Why::NotCurrent)),
            (late_stream, None, &same, new, stale(Why::NotCurrent)),
        ] {
            let content = digest.map(|digest| Content { digest, unique: false });
            assert_eq!(
                judge(claim, token, Some(by), content, 2_000),
                expected,
                "{claim:?} {token:?} {by:?} {digest:?}"
            );
        }
        let content = |digest| Some(Content { digest, unique: true });
        assert_eq!(judge(CLAIM, None, Some(&same), content(20), 0), Verdict::Repeat);
        assert_eq!(judge(CLAIM, None, Some(&same), content(30), 0), Verdict::Holder);
        let later = 1_000 + LATE_STEP_MS;
        assert_eq!(judge(lost, None, Some(&unknown), content(30), later - 1), stale(Why::Unidentified));
        assert_eq!(judge(lost, None, Some(&unknown), content(30), later), Verdict::Holder);
        let of_task = ClaimOf { late_ms: i64::MAX, ..lost };
        assert_eq!(judge(of_task, None, Some(&unknown), content(30), i64::MAX), stale(Why::Unidentified));
        assert_eq!(judge(lost, None, None, content(30), 2_000), stale(Why::Unidentified));
    }
}
