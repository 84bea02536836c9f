//! Who may report on a claim: one table decides whether a report counts.
//!
//! A report is everything that a worker sends about work that it has claimed: a result, a failure, an activation's
//! commands, a heartbeat, progress, a log line, task state.
//!
//! | token | claim | reporter | verdict |
//! |---|---|---|---|
//! | the current one | running | any | holder |
//! | the last accepted one | any | sends what was accepted | repeat |
//! | the last accepted one | any | sends something else | stale |
//! | any other | any | any | stale |
//! | none | any | sends what was accepted, and numbers it so that it cannot be a new report | repeat |
//! | none | running, of a plain client | identified as the claimer | holder |
//! | none | running, of a plain client | identified as another reporter | repeat if it sends what was accepted, else stale |
//! | none | running, of a plain client, no claim was lost lately | not identified | ambiguous if it sends what was accepted, else holder |
//! | none | running, of a plain client, a claim was lost lately | not identified | repeat if it sends what was accepted, else stale |
//! | none | running, of a worker with tokens | any | repeat if it sends what was accepted, else stale |
//! | none | lost, of a plain client; the task waits for its next attempt | identified as the claimer, or not identified and no other claim was ever delivered | repeat if it sends what was accepted, else late |
//! | none | not running, otherwise | any | repeat if it sends what was accepted, else stale |
//!
//! A late success counts: the next attempt is removed from the queue, and the attempt that was counted as lost has
//! succeeded. At most one outcome is accepted, because a task that has ended has no next attempt. All other late
//! reports are stale: the attempt has already been counted as a failure. No report on an execution is late: a step from
//! an old history runs again.
//!
//! A claim is lost when it ends without a report, because its lease or a timeout has expired. Its worker may still be
//! alive and report late: on an execution for [`LATE_STEP_MS`], on a task at any time.
//!
//! The first row that applies identifies a client:
//!
//! | the reporter | is identified as |
//! |---|---|
//! | has another credential than the claimer | another reporter |
//! | names the claimer's id | the claimer |
//! | names another worker | another reporter |
//! | is on the claimer's connection | the claimer |
//! | anything else, also if it names the claimer's name: several processes may have it | not identified |
//!
//! A holder's batch of commands is stale too if it is based on an older history than the last accepted batch, or if it
//! has no number and may be a copy of that batch. Its claim ends then, because the holder would not report again.
//!
//! An ambiguous report is refused. Accepting it could end another worker's claim. Answering it as a repeat could
//! confirm a report that never counted. An activation that only suspends is an exception, because many of them in a row
//! are equal: `may_lack_events` in `rules/submit.rs` decides whether the execution waits or runs again. See
//! `docs/de-duplication.md`.

use crate::code::{Code, Refusal};
use crate::ids::{WorkerId, canonical_id};
use crate::planted::{Bug, planted};
use crate::request::Peer;
use crate::state::{Execution, ExecutionStatus, Task, TaskStatus};

/// How long the worker of a lost claim of an execution may still report. A reporter that cannot be identified has to
/// wait that long. The time is limited, because an execution must be able to continue whatever its clients' connections
/// are.
pub(crate) const LATE_STEP_MS: i64 = 10 * 60_000;

/// The claim of an execution or a task, as its row remembers it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimOf<'a> {
    pub(crate) running: bool,
    /// The claim ended without a report, the task waits for its next attempt, and no other claim was made since.
    pub(crate) lost: bool,
    /// No other claim has ever been delivered.
    pub(crate) first: bool,
    /// The claim was made by a client of the public protocol, which may report without a token.
    pub(crate) plain: bool,
    pub(crate) epoch: i64,
    /// 0: no report has been accepted yet.
    pub(crate) accepted_epoch: i64,
    /// Fingerprint of the last accepted report. `None`: that report came from a worker with tokens.
    pub(crate) accepted_digest: Option<i64>,
    pub(crate) credential: Option<i64>,
    pub(crate) connection: Option<i64>,
    pub(crate) worker: Option<&'a str>,
    pub(crate) session: Option<WorkerId>,
    pub(crate) lost_ms: Option<i64>,
    /// How long after `lost_ms` the claim's worker may still report.
    pub(crate) late_ms: i64,
    /// The planted bug that accepts every report on this work while it runs.
    pub(crate) bug: Bug,
}

/// The verdict on a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// From the holder of the current claim: it counts.
    Holder,
    /// Late, and no other worker has the task: a success counts.
    Late,
    /// Accepted before: the same answer again, and no effect.
    Repeat,
    /// Equal to the last accepted report, and it cannot be decided whether it is a repeat or a new report of the
    /// holder.
    Ambiguous,
    /// The sender does not hold the claim. The report changes nothing.
    Stale(Why),
}

/// Why a report is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The token is not the current one, or nothing is running.
    NotCurrent,
    /// A report with this token was accepted, with other content.
    OtherContent,
    /// It has no token, and another reporter made the claim.
    OtherReporter,
    /// Its commands are based on an older history than the last accepted ones.
    OlderHistory,
    /// It has no token and no number, and is equal to the last accepted batch.
    MayBeCopy,
    /// It has no token and no identified sender, and the worker of an earlier claim may have sent it.
    Unidentified,
}

impl<'a> From<&'a Execution> for ClaimOf<'a> {
    fn from(row: &'a Execution) -> Self {
        Self {
            running: row.status == ExecutionStatus::Running,
            // A late step from an old history could do harm: the step runs again instead.
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
            // A released claim has no worker, and a reported claim has been accepted.
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
            // A task ends after a limited number of attempts, and an attempt may have taken days.
            late_ms: i64::MAX,
            bug: Bug::StaleReportAccepted,
        }
    }
}

/// The content of a report, reduced to what is needed to recognise a repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) digest: i64,
    /// The sender never sends equal content for two claims.
    pub(crate) unique: bool,
}

/// Judges a report. `content`: only for reports that can be repeated.
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
            // A worker with tokens reports once for each claim, so its content is not stored.
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
    // The sender made the last claim, and nobody has claimed since.
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

/// Whether the reporter made the claim. `None`: unknown.
fn identify(claim: &ClaimOf<'_>, peer: Option<&Peer>) -> Option<bool> {
    let peer = peer?;
    if let (Some(claimed), Some(reports)) = (claim.credential, peer.credential)
        && claimed != reports
    {
        return Some(false);
    }
    let named = peer.worker.as_deref();
    if let Some(is_claimer) = named.and_then(|named| is_named(claim, named)) {
        return Some(is_claimer);
    }
    is_on_its_connection(*claim, Some(peer)).then_some(true)
}

/// Whether the name or id that the reporter gives is that of the claimer. `None`: it does not tell, because several
/// processes may have one name, or because the claimer's id is unknown.
fn is_named(claim: &ClaimOf<'_>, named: &str) -> Option<bool> {
    let worker = claim.worker?;
    match (canonical_id(named), claim.session) {
        (Some(id), Some(session)) if id == session => Some(true),
        _ if worker == named => None,
        (Some(_), None) if canonical_id(worker).is_none() => None,
        _ => Some(false),
    }
}

/// Whether a message that is stored late, such as a log line, may have been sent during the last claim, which has ended
/// since.
pub(crate) fn may_have_held(claim: ClaimOf<'_>, token: Option<i64>, peer: Option<&Peer>) -> bool {
    match token {
        Some(token) => token == claim.epoch,
        None => claim.plain && identify(&claim, peer) != Some(false),
    }
}

/// Whether a report arrives on the connection that made the claim. Then its client has received the claim.
pub(crate) fn is_on_its_connection(claim: ClaimOf<'_>, peer: Option<&Peer>) -> bool {
    claim.connection.is_some() && claim.connection == peer.and_then(|peer| peer.connection)
}

/// The refusal of a stale report, with a message that says what to do.
pub(crate) fn refuse(what: &str, status: &str, claim: ClaimOf<'_>, token: Option<i64>, why: Why) -> Refusal {
    let epoch = claim.epoch;
    let message = match (why, token) {
        (Why::OtherContent, _) => format!("claim {epoch} of {what} was already reported with other content"),
        (Why::OtherReporter, _) => {
            format!(
                "claim {epoch} of {what} belongs to another worker: this report has no token and is ignored"
            )
        }
        (Why::Unidentified, _) => format!(
            "this report cannot be matched to claim {epoch} of {what}: the worker of an earlier claim may \
             have sent it. Send claim_token, or report on the connection that polled"
        ),
        (Why::OlderHistory, _) => {
            format!("these commands are based on an older history of {what} than the last accepted ones")
        }
        (Why::MayBeCopy, _) => {
            format!("these commands are equal to the last accepted ones of {what}: they may be a copy")
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
    fn an_id_identifies_and_a_name_that_several_may_have_does_not() {
        let id = WorkerId::from_u128(0xabc);
        let (text, other_id) = (id.to_string(), WorkerId::from_u128(0xdef).to_string());
        let registered = ClaimOf { session: Some(id), ..CLAIM };
        let polled_by_id = ClaimOf { worker: Some(&text), ..CLAIM };
        for (claim, by, expected) in [
            (CLAIM, peer(1, Some(7), None), Some(true)),
            (CLAIM, peer(1, Some(8), None), None),
            // Two processes of one name send the same metadata.
            (CLAIM, peer(1, Some(8), Some("w")), None),
            (CLAIM, peer(1, Some(7), Some("w")), Some(true)),
            (CLAIM, peer(1, Some(7), Some("v")), Some(false)),
            (CLAIM, peer(2, Some(7), Some("w")), Some(false)),
            (registered, peer(1, None, Some(&text)), Some(true)),
            (registered, peer(2, Some(7), Some(&text)), Some(false)),
            (registered, peer(1, Some(7), Some(&other_id)), Some(false)),
            (registered, peer(1, None, Some("w")), None),
            (registered, peer(1, Some(7), Some(&text.to_uppercase())), Some(false)),
            // The claimer polled by a name that several processes have: an id does not tell which of them it was.
            (CLAIM, peer(1, Some(7), Some(&text)), Some(true)),
            (CLAIM, peer(1, Some(8), Some(&text)), None),
            (polled_by_id, peer(1, Some(8), Some(&text)), None),
            (polled_by_id, peer(1, Some(7), Some(&other_id)), Some(false)),
        ] {
            assert_eq!(identify(&claim, Some(&by)), expected, "{claim:?} {by:?}");
        }
    }

    #[test]
    fn the_table_of_reports() {
        let (same, other, unknown) = (peer(1, Some(7), None), peer(2, Some(7), None), peer(1, Some(8), None));
        let (named, misnamed) = (peer(1, None, Some("w")), peer(1, Some(7), Some("v")));
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
            (lost, None, &named, new, stale(Why::Unidentified)),
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
            (late, None, &named, new, stale(Why::NotCurrent)),
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
