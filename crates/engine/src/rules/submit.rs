//! An activation's result: its commands, in order, and how it ended. One unit: all of it or nothing.

use crate::check;
use crate::code::{Code, Refusal};
use crate::event::Origin;
use crate::ids::TenantId;
use crate::lifecycle::execution::{self, End};
use crate::limits::Limits;
use crate::planted::{Bug, planted};
use crate::reply::Reply;
use crate::request::{Command, Outcome, SubmitActivation};
use crate::rules::submit_command;
use crate::rules::{Rule, Work};
use crate::state::{Execution, ExecutionStatus};
use crate::working_set::Needs;

impl Rule for SubmitActivation {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check::bulk("commands", self.commands.len().max(1), limits.commands)?;
        let checked = |(index, command)| {
            submit_command::check(command, limits).map_err(|refusal: Refusal| refusal.at_command(index))
        };
        self.commands.iter().enumerate().try_for_each(checked)
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        let execution = needs.execution((tenant_id, self.execution_id));
        for command in &self.commands {
            submit_command::needs(tenant_id, self.execution_id, command, needs);
        }
        let ends = !matches!(self.outcome, Outcome::Suspended | Outcome::ActivationFailed { .. });
        if let (true, Some(execution)) = (ends, execution) {
            execution::needs_end(needs, execution);
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let mut execution = execution::find(work, self.execution_id)?;
        if execution.accepted_epoch > 0 && self.token == Some(execution.accepted_epoch) {
            // The reply got lost and the worker sent it again: recognised by the claim, never by content.
            return Ok(Reply::Submitted { status: execution.status, repeated: true });
        }
        self.check_claim(&execution)?;
        if self.token.is_none()
            && let Some(reply) = self.token_less_repeat(work, &mut execution)
        {
            return reply;
        }
        let unseen = self.has_unseen_events(&execution)?;
        let seen_sequence = execution.last_sequence;
        if !unseen {
            execution.base_sequence = seen_sequence;
        }
        for (index, command) in self.commands.iter().enumerate() {
            submit_command::apply(work, &mut execution, command)
                .map_err(|refusal| refusal.at_command(index))?;
        }
        execution::check_history(work, &execution, 0)?;
        // A command may have been answered on the spot by an event that the worker has yet to see.
        let unseen = unseen || execution.last_external_sequence > seen_sequence;
        execution.accepted_epoch = execution.epoch;
        self.end(work, &mut execution, unseen)?;
        let status = execution.status;
        work.set.executions.put(execution);
        Ok(Reply::Submitted { status, repeated: false })
    }
}

impl SubmitActivation {
    fn check_claim(&self, execution: &Execution) -> Result<(), Refusal> {
        // A claim made with a token is submitted with it: only clients that never saw one may leave it out.
        let current = self.token.map_or(execution.plain, |token| token == execution.epoch);
        if execution.status == ExecutionStatus::Running && (current || planted(Bug::StaleActivationAccepted))
        {
            return Ok(());
        }
        let message = match self.token {
            Some(token) => format!(
                "claim {token} of execution {} is not current: {} at claim {}",
                execution.id, execution.status, execution.epoch
            ),
            None => {
                format!(
                    "execution {} is {} and no token-less client has claimed it",
                    execution.id, execution.status
                )
            }
        };
        Err(Refusal::new(Code::StaleClaim, message))
    }

    /// Whether something happened that this activation has not taken into account.
    fn has_unseen_events(&self, execution: &Execution) -> Result<bool, Refusal> {
        match (self.token, self.base_sequence) {
            (Some(_), Some(base)) => {
                if base < execution.base_sequence || base > execution.last_sequence {
                    let message = format!(
                        "base {base} is outside {}..={}",
                        execution.base_sequence, execution.last_sequence
                    );
                    return Err(Refusal::new(Code::InvalidSequence, message));
                }
                Ok(base < execution.last_external_sequence)
            }
            // No base: the mark set since the claim plays its part.
            _ => Ok(execution.marked),
        }
    }

    /// A plain client that lost its history sends first commands again. If all its ids are in the log already it
    /// is acknowledged without effect; if only some are, it is refused. Either way the execution is queued again
    /// and gets the history it lacked.
    fn token_less_repeat(
        &self,
        work: &mut Work<'_>,
        execution: &mut Execution,
    ) -> Option<Result<Reply, Refusal>> {
        let mut known = 0;
        let mut named = 0;
        for command in &self.commands {
            if let Some(in_log) = submit_command::is_in_log(work, execution, command) {
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

    fn end(&self, work: &mut Work<'_>, execution: &mut Execution, unseen: bool) -> Result<(), Refusal> {
        // What had come by the time of the claim was delivered with it.
        execution.buffered_signals -= execution.delivered_signals;
        execution.delivered_signals = 0;
        if let Some(base) = self.base_sequence.filter(|_| self.token.is_some()) {
            execution.base_sequence = base;
        }
        let end = match &self.outcome {
            Outcome::Suspended => {
                clear_failure(execution);
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
                End::Completed { output: check::payload("output", output, work.limits)? }
            }
            Outcome::Failed { error, failure_type, stack_trace } => {
                check::text("error", error, work.limits)?;
                check::text("stack trace", stack_trace.as_deref().unwrap_or(""), work.limits)?;
                check::optional_name("failure type", failure_type, work.limits)?;
                End::Failed {
                    error: error.clone(),
                    failure_type: failure_type.clone(),
                    stack_trace: stack_trace.clone(),
                }
            }
            Outcome::Cancelled { reason } => {
                check::text("reason", reason, work.limits)?;
                End::Cancelled { reason: reason.clone() }
            }
        };
        clear_failure(execution);
        execution::finish(work, execution, Origin::Command, end);
        Ok(())
    }

    /// The worker could not carry out the activation. The workflow has not failed: it is held back, visibly, and
    /// tried again. Events do not shorten that; another build or an operator does.
    fn activation_failed(
        &self,
        work: &mut Work<'_>,
        execution: &mut Execution,
        code: &crate::ids::Text,
        message: &crate::ids::Text,
    ) -> Result<(), Refusal> {
        if self.commands.iter().any(|command| !matches!(command, Command::RecordOperation { .. })) {
            let message = "an activation that failed can record operations, nothing else";
            return Err(Refusal::new(Code::InvalidCommand, message));
        }
        check::name("failure code", code, work.limits)?;
        check::text("failure message", message, work.limits)?;
        check::optional_name("build id", &self.build_id, work.limits)?;
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
        execution.failure_build = self.build_id.clone();
        execution.not_before_ms = Some(work.now.ms.saturating_add(delay_ms));
        execution::make_pending(work, execution);
        Ok(())
    }
}

fn clear_failure(execution: &mut Execution) {
    execution.activation_failures = 0;
    execution.failure_code = None;
    execution.failure_message = None;
    execution.failure_build = None;
}
