//! The result of an activation: its commands, in order, and its outcome. All of it is accepted, or nothing.

use crate::check;
use crate::code::{Code, Refusal};
use crate::digest::digest;
use crate::event::{EventData, EventKind, Origin};
use crate::ids::{TenantId, Text};
use crate::lifecycle::execution::{self, End};
use crate::lifecycle::reporter::{self, ClaimOf, Content, Verdict, Why};
use crate::lifecycle::{clean_up, held_back};
use crate::limits::Limits;
use crate::note::Noted;
use crate::planted::{Bug, planted};
use crate::reply::Reply;
use crate::request::{Command, Outcome, Peer, SubmitActivation};
use crate::rules::{Rule, Work, commands, refused};
use crate::state::{Execution, ExecutionStatus, SmallEnum};
use crate::working_set::Needs;

/// How often in a row an execution runs again because it is not proven that its client received the last claim. A
/// client behind a proxy that spreads requests over connections can never prove it, so its executions must wait in the
/// end.
const UNPROVEN_SUSPENDS: i64 = 2;
/// How often in a row an execution runs again because of batches whose numbers are older than its history. A client that
/// numbers its own commands instead of the events never catches up, so in the end its numbers are ignored.
const UNPROVEN_NUMBERS: i64 = 5;

impl Rule for SubmitActivation {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check::bulk("commands", self.commands.len().max(1), limits.commands)?;
        let checked = |(index, command)| {
            commands::check(command, limits).map_err(|refusal: Refusal| refusal.at_command(index))
        };
        self.commands.iter().enumerate().try_for_each(checked)
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        let execution = needs.execution((tenant_id, self.execution_id));
        for command in &self.commands {
            commands::needs(tenant_id, self.execution_id, command, needs);
        }
        let ends = !matches!(self.outcome, Outcome::Suspended | Outcome::ActivationFailed { .. });
        match execution {
            Some(execution) if ends => execution::needs_end(needs, execution),
            Some(execution) => refused::needs_end(needs, execution),
            None => {}
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let execution = execution::find(work, self.execution_id)?;
        let content = self.content(&execution);
        let claim = ClaimOf::from(&execution);
        let stale = |why| {
            let what = format!("execution {}", execution.id);
            Err(reporter::refuse(&what, execution.status.name(), claim, self.token, why))
        };
        let only_suspends = self.token.is_none() && self.only_suspends();
        match reporter::judge(claim, self.token, work.peer, content, work.now.lease_ms) {
            Verdict::Holder | Verdict::Ambiguous if only_suspends => {
                if self.may_lack_events(&execution, claim, work.peer, content) {
                    return Ok(run_again(work, execution));
                }
            }
            Verdict::Holder if self.is_outdated(&execution) => {
                let refused = stale(Why::OlderHistory);
                release(work, execution);
                return refused;
            }
            verdict @ (Verdict::Holder | Verdict::Ambiguous)
                if self.may_be_copy(&execution, verdict, content) =>
            {
                let refused = stale(Why::MayBeCopy);
                release(work, execution);
                return refused;
            }
            Verdict::Holder => {}
            Verdict::Ambiguous if self.is_without_ids() => {}
            // The reply was lost, and the worker sent the batch again.
            Verdict::Repeat => return Ok(Reply::Submitted { status: execution.status, repeated: true }),
            Verdict::Late => return stale(Why::NotCurrent),
            Verdict::Ambiguous => return stale(Why::Unidentified),
            Verdict::Stale(why) => {
                let refused = stale(why);
                self.look_again(work, execution);
                return refused;
            }
        }
        refused::carry_out(work, self, |work| self.carry_out(work, execution, content))
    }
}

impl SubmitActivation {
    /// Carries out the batch of the claim's holder.
    fn carry_out(
        &self,
        work: &mut Work<'_>,
        mut execution: Execution,
        content: Option<Content>,
    ) -> Result<Reply, Refusal> {
        if self.token.is_none()
            && let Some(reply) = self.token_less_repeat(work, &mut execution)
        {
            return reply;
        }
        let unseen = self.has_unseen_events(&execution)?;
        let overlooked =
            self.ends() && self.has_unseen_signal(&execution, unseen) && !planted(Bug::EndedOverUnseenSignal);
        if overlooked && !was_asked_often(&execution, work.limits) {
            return Err(self.defer_end(work, execution));
        }
        let seen_sequence = execution.last_sequence;
        if !unseen {
            execution.base_sequence = seen_sequence;
        } else if let Some(read) = self.events_read(&execution) {
            execution.base_sequence = execution.base_sequence.max(read);
        }
        for (index, command) in self.commands.iter().enumerate() {
            commands::apply(work, &mut execution, command).map_err(|refusal| refusal.at_command(index))?;
        }
        // A batch without new events needs no room, so that a full history can always end.
        if execution.last_sequence > seen_sequence {
            let is_last = !matches!(self.outcome, Outcome::Suspended | Outcome::ActivationFailed { .. });
            execution::check_room(work, &execution, is_last)?;
        }
        // The engine may have answered a command at once, by an event that the worker has not seen.
        let unseen = unseen || execution.last_external_sequence > seen_sequence;
        execution.accepted_epoch = execution.epoch;
        execution.runs_again = 0;
        execution.accepted_digest = content.map(|content| content.digest);
        self.end(work, &mut execution, unseen, overlooked)?;
        if overlooked || self.ends() && self.token.is_none() {
            // All signals were delivered; without a token, it is not known which of them the worker has seen.
            execution.base_sequence = execution.base_sequence.max(execution.last_signal_sequence);
        }
        let status = execution.status;
        work.set.executions.put(execution);
        Ok(Reply::Submitted { status, repeated: false })
    }

    /// The fingerprint that recognises a repeat of this batch. Workers with tokens repeat a batch by its token alone.
    fn content(&self, execution: &Execution) -> Option<Content> {
        let digest = || digest((&self.commands, &self.outcome, self.first_number));
        // A batch without commands adds no events, so the next batch may be equal.
        let unique = self.events_read(execution).is_some() && !self.commands.is_empty();
        (execution.plain || self.token.is_none()).then(|| Content { digest: digest(), unique })
    }

    /// How many events the client had read, by the number of its batch. `None`: the batch has no number, or one that
    /// cannot be a position in this history.
    fn events_read(&self, execution: &Execution) -> Option<i64> {
        let read = self.first_number.filter(|_| self.token.is_none())? - 1;
        (read <= execution.last_sequence && execution.runs_again < UNPROVEN_NUMBERS).then_some(read)
    }

    /// Whether the client had read less of the history than at the last accepted activation.
    fn is_outdated(&self, execution: &Execution) -> bool {
        self.events_read(execution).is_some_and(|read| read < execution.base_sequence)
    }

    /// Whether a batch without a number may be a copy of the last accepted one. Commands without ids would count twice.
    /// A new batch may be equal, so the execution runs again: once if the claimer sent the batch, otherwise
    /// [`UNPROVEN_SUSPENDS`] times.
    fn may_be_copy(&self, execution: &Execution, verdict: Verdict, content: Option<Content>) -> bool {
        let same = content.is_some_and(|content| execution.accepted_digest == Some(content.digest));
        let times = if verdict == Verdict::Holder { 1 } else { UNPROVEN_SUSPENDS };
        let numbered = self.events_read(execution).is_some();
        self.token.is_none() && same && !numbered && self.is_without_ids() && execution.runs_again < times
    }

    /// Whether the batch suspends after commands, and none of them has an id by which the log could show a copy.
    fn is_without_ids(&self) -> bool {
        let without = |command: &Command| !commands::has_id(command);
        self.outcome == Outcome::Suspended && !self.commands.is_empty() && self.commands.iter().all(without)
    }

    fn only_suspends(&self) -> bool {
        self.commands.is_empty() && self.outcome == Outcome::Suspended
    }

    /// Whether a batch that only suspends may be older than the claim that it would end. It may be a copy that the
    /// client sent again because the answer was lost, while the claim itself was lost on the way to the client. If the
    /// execution waited because of such a batch, it could wait forever.
    ///
    /// A number says which events the client had read. Without a number, the connection that made the claim proves that
    /// the claim has arrived, unless the previous batch had the same content. If a client has neither, the execution
    /// runs again [`UNPROVEN_SUSPENDS`] times.
    fn may_lack_events(
        &self,
        execution: &Execution,
        claim: ClaimOf<'_>,
        peer: Option<&Peer>,
        content: Option<Content>,
    ) -> bool {
        if let Some(read) = self.events_read(execution) {
            return read < execution.last_external_sequence || self.is_outdated(execution);
        }
        let same = content.is_some_and(|content| execution.accepted_digest == Some(content.digest));
        let asked = execution.runs_again;
        match reporter::is_on_its_connection(claim, peer) {
            true => same && asked == 0,
            false => asked < UNPROVEN_SUSPENDS,
        }
    }

    /// Requeues an execution whose wait may be wrong. A client without tokens that had two claims of one execution
    /// reports on both. If the reports cross, the first one counts for the second claim and may suspend over events
    /// that it has not seen. The refusal of the other report is the only sign of that.
    fn look_again(&self, work: &mut Work<'_>, mut execution: Execution) {
        if self.token.is_none() && execution.plain && execution.status == ExecutionStatus::Waiting {
            execution::make_pending(work, &mut execution);
            work.set.executions.put(execution);
            work.keep_on_refusal = true;
        }
    }

    /// Whether the history has events that this activation has not seen.
    fn has_unseen_events(&self, execution: &Execution) -> Result<bool, Refusal> {
        match (self.token, self.base_sequence) {
            (Some(_), Some(base)) => {
                // Code of another build may end the workflow at an earlier event than the last accepted activation saw.
                let too_low = base < execution.base_sequence && !(self.ends() && base >= 0);
                if too_low || base > execution.last_sequence {
                    let message = format!(
                        "base {base} is outside {}..={}",
                        execution.base_sequence, execution.last_sequence
                    );
                    return Err(Refusal::new(Code::InvalidSequence, message));
                }
                Ok(base < execution.last_external_sequence)
            }
            // Without a base sequence, the mark says whether an event arrived since the claim. A number can also show
            // that the batch was decided before the claim.
            _ => {
                let read = self.events_read(execution);
                Ok(execution.marked || read.is_some_and(|read| read < execution.last_external_sequence))
            }
        }
    }

    /// Whether the workflow itself completes or fails. A cancelled workflow is not delayed by signals.
    fn ends(&self) -> bool {
        matches!(self.outcome, Outcome::Completed { .. } | Outcome::Failed { .. })
    }

    /// Whether a signal has arrived that this activation has not seen.
    fn has_unseen_signal(&self, execution: &Execution, unseen: bool) -> bool {
        let seen = self.base_sequence.filter(|_| self.token.is_some());
        match seen {
            Some(base) => base < execution.last_signal_sequence,
            // Without a base sequence: whether a signal has arrived since the claim, or after what the client had read.
            None => {
                let read = self.events_read(execution);
                unseen && execution.buffered_signals > execution.delivered_signals
                    || read.is_some_and(|read| read < execution.last_signal_sequence)
            }
        }
    }

    /// Defers the end of an execution that has an unseen signal: nothing of the activation is carried out, and the
    /// execution is requeued. An event records how far the workflow had read. From it, replay knows that the end did
    /// not count, and where the workflow receives the signals when it decides again.
    fn defer_end(&self, work: &mut Work<'_>, mut execution: Execution) -> Refusal {
        let sequence = execution.last_signal_sequence;
        execution.runs_again += 1;
        let mut data =
            EventData::new(EventKind::EndDeferred).text(format!("a signal came first, at {sequence}"));
        data.number = self.base_sequence.filter(|_| self.token.is_some());
        let deferred = execution::append_external(work, &mut execution, data);
        if self.token.is_none() {
            // A copy of the same batch has an older number, so it is not taken for the answer to the next claim.
            execution.base_sequence = deferred;
        }
        execution::make_pending(work, &mut execution);
        let message =
            format!("execution {} cannot end: it has not seen the signal at {sequence}", execution.id);
        work.set.executions.put(execution);
        work.keep_on_refusal = true;
        work.note(Noted::EndDeferred);
        Refusal::new(Code::EndDeferred, message)
    }

    /// Handles a plain client that lost its history and sends its first commands again. If all their ids are in the log
    /// already, the batch is acknowledged without effect. If only some are, it is refused. In both cases the execution
    /// is requeued and receives the missing history.
    fn token_less_repeat(
        &self,
        work: &mut Work<'_>,
        execution: &mut Execution,
    ) -> Option<Result<Reply, Refusal>> {
        let mut known = 0;
        let mut named = 0;
        for command in &self.commands {
            if let Some(in_log) = commands::is_in_log(work, execution, command) {
                named += 1;
                known += usize::from(in_log);
            }
        }
        if known == 0 {
            return None;
        }
        execution::make_pending(work, execution);
        let status = execution.status;
        work.set.executions.put(execution.clone());
        if known == named {
            return Some(Ok(Reply::Submitted { status, repeated: true }));
        }
        work.keep_on_refusal = true;
        let message = format!("{known} of {named} ids of this batch are already in the history");
        Some(Err(Refusal::new(Code::PartialRepeat, message)))
    }

    /// `overlooked`: it ends although it has not seen a signal.
    fn end(
        &self,
        work: &mut Work<'_>,
        execution: &mut Execution,
        unseen: bool,
        overlooked: bool,
    ) -> Result<(), Refusal> {
        // The signals that had arrived at the time of the claim were delivered with it.
        execution.buffered_signals -= execution.delivered_signals;
        let (least, undelivered) = (i64::from(overlooked), execution.buffered_signals);
        let unread_signals = self.unread_signals.max(least);
        execution.delivered_signals = 0;
        if let Some(base) = self.base_sequence.filter(|_| self.token.is_some()) {
            execution.base_sequence = base;
        }
        let end = match &self.outcome {
            Outcome::Suspended => {
                clear_failure(execution);
                self.clean_up_went_on(work, execution);
                execution.status = ExecutionStatus::Waiting;
                execution.lease_until_ms = None;
                execution.marked = false;
                if unseen && !planted(Bug::WakeUpLost) {
                    execution::make_pending(work, execution);
                }
                return Ok(());
            }
            Outcome::ActivationFailed { code, message } => {
                return self.activation_failed(work, execution, code, message);
            }
            Outcome::Completed { output } => {
                let output = check::payload("output", output, work.limits)?;
                End::Completed { output, unread_signals }
            }
            Outcome::Failed { error, failure, stack_trace } => {
                let error = check::cut("error", error, work.limits)?;
                let cut = |trace| check::cut("stack trace", trace, work.limits);
                let stack_trace = stack_trace.as_ref().map(cut).transpose()?;
                check::failure(failure, work.limits)?;
                End::Failed { error, failure: failure.clone(), stack_trace, unread_signals }
            }
            Outcome::Cancelled { reason } => {
                check::text("reason", reason, work.limits)?;
                End::Cancelled {
                    reason: reason.clone(),
                    unread_signals: unread_signals.saturating_add(undelivered),
                }
            }
        };
        clear_failure(execution);
        execution::finish(work, execution, Origin::Command, end);
        Ok(())
    }

    /// After a cancel request: how long the clean-up may continue.
    fn clean_up_went_on(&self, work: &mut Work<'_>, execution: &mut Execution) {
        if execution.cancel_requested_ms.is_none() {
            return;
        }
        self.learn_grace(work, execution);
        let open = execution.open_tasks + execution.open_timers + execution.open_children;
        let step = match self.clean_up {
            Some(told) if told.waits && open > 0 => clean_up::Step::Waits,
            Some(_) if !self.commands.is_empty() => clean_up::Step::Advanced,
            // A client that never says that it cleans up, or an activation that had not seen the request.
            _ => clean_up::Step::Idle,
        };
        clean_up::accepted(execution, work.limits.cancel_grace_ms, work.now.ms, step);
        execution::arm(work, execution);
    }

    fn learn_grace(&self, work: &Work<'_>, execution: &mut Execution) {
        if let Some(grace_ms) = self.clean_up.and_then(|told| told.grace_ms) {
            // Clamped to the limit of a start: a worker's definition is no reason to refuse its work.
            let grace_ms = grace_ms.clamp(0, work.limits.duration_max_ms);
            clean_up::learn(execution, grace_ms, work.now.ms);
        }
    }

    /// The worker could not carry out the activation. The workflow has not failed: it is held back, visibly, and
    /// retried. Events do not shorten the delay; a worker of another build or an operator does.
    pub(super) fn activation_failed(
        &self,
        work: &mut Work<'_>,
        execution: &mut Execution,
        code: &Text,
        message: &Text,
    ) -> Result<(), Refusal> {
        if self.commands.iter().any(|command| !matches!(command, Command::RecordOperation { .. })) {
            let message = "a failed activation may only contain RecordOperation commands";
            return Err(Refusal::new(Code::InvalidCommand, message));
        }
        check::name("failure code", code, work.limits)?;
        // Whatever a panic says, it is no reason to refuse the report of it.
        let message = &Text::from(message.replace('\0', "\u{fffd}"));
        let message = &check::cut("failure message", message, work.limits)?;
        check::optional_name("build id", &self.build_id, work.limits)?;
        if refused::fail_after_equal(work, execution, code, message) {
            return Ok(());
        }
        let failures = execution.activation_failures;
        let doublings = u32::try_from(failures.clamp(0, 32)).unwrap_or(32);
        let delay_ms = work
            .limits
            .activation_backoff_ms
            .saturating_mul(1_i64 << doublings)
            .min(work.limits.activation_backoff_max_ms);
        execution.activation_failures = failures + 1;
        execution.failure_code = Some(code.clone());
        execution.failure_message = Some(message.clone());
        execution.failure_build =
            held_back::failed_on(execution.failure_build.as_ref(), self.build_id.as_ref());
        execution.not_before_ms = Some(work.now.ms.saturating_add(delay_ms));
        self.learn_grace(work, execution);
        clean_up::failed(execution, work.limits.cancel_grace_ms, work.now.ms);
        execution::make_pending(work, execution);
        Ok(())
    }
}

/// Whether its end was deferred as often as allowed, and all its signals were delivered. A worker that never reports
/// that it has seen them would otherwise be asked without end.
fn was_asked_often(execution: &Execution, limits: &Limits) -> bool {
    execution.runs_again >= limits.deferred_ends && execution.buffered_signals == execution.delivered_signals
}

/// Ends the claim and requeues the execution: its events are delivered again.
fn run_again(work: &mut Work<'_>, mut execution: Execution) -> Reply {
    execution.runs_again += 1;
    execution::make_pending(work, &mut execution);
    let status = execution.status;
    work.set.executions.put(execution);
    Reply::Submitted { status, repeated: true }
}

/// Ends the claim of a refused batch and requeues the execution. The sender may hold the claim, and would not report on
/// it again.
fn release(work: &mut Work<'_>, execution: Execution) {
    run_again(work, execution);
    work.keep_on_refusal = true;
}

fn clear_failure(execution: &mut Execution) {
    execution.activation_failures = 0;
    execution.failure_code = None;
    execution.failure_message = None;
    execution.failure_build = None;
    execution.not_before_ms = None;
    execution.equal_refusals = 0;
}
