//! The server's limits, which it sends in its welcome. A result that exceeds them is not sent, because one oversized
//! frame would end the stream for all work in flight. Instead the worker reports a failure. The message of a failure is
//! cut.

use std::sync::{Mutex, PoisonError};

use flovyn_proto::v1;
use flovyn_proto::v1::workflow_command::CommandData;
use prost::Message;

use crate::replay::ActivationError;
use crate::size::TOO_LARGE;

/// Code for too many commands.
const TOO_MANY: &str = "FLV0008";
/// Space in a frame for everything except its one result.
const FRAME_BYTES_AROUND: usize = 1 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    payload_bytes: usize,
    text_bytes: usize,
    commands: usize,
    frame_bytes: usize,
}

impl Default for Limits {
    /// The limits if the server sends none.
    fn default() -> Self {
        Self { payload_bytes: 1 << 20, text_bytes: 64 << 10, commands: 10_000, frame_bytes: 4 << 20 }
    }
}

/// The limits of the server that the worker connected to last.
#[derive(Debug, Default)]
pub(super) struct ServerLimits(Mutex<Limits>);

impl ServerLimits {
    /// `None`: the server sends no limits, so the defaults apply.
    pub(super) fn set(&self, sent: Option<v1::StreamLimits>) {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let limits = sent.map_or_else(Limits::default, |sent| Limits {
            payload_bytes: size(sent.payload_bytes),
            text_bytes: size(sent.text_bytes),
            commands: size(sent.commands),
            frame_bytes: size(sent.frame_bytes),
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    pub(super) fn get(&self) -> Limits {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limits {
    /// Why an activation cannot be sent. `None`: it can be sent. The last command may be the end of the workflow.
    pub(super) fn refuse(&self, submit: &v1::SubmitWorkflowCommandsRequest) -> Option<ActivationError> {
        let last = submit.commands.last().and_then(|command| command.command_data.as_ref());
        let output = match last {
            Some(CommandData::CompleteWorkflow(complete)) => complete.output.len(),
            _ => 0,
        };
        if output > self.payload_bytes {
            return Some(ActivationError::new(TOO_LARGE, exceeds("output", output, self.payload_bytes)));
        }
        // The command that ends the workflow does not count for the server.
        let count = submit.commands.len();
        if count > self.commands.saturating_add(1) {
            let message = format!("{count} commands in one activation, the limit is {}", self.commands);
            return Some(ActivationError::new(TOO_MANY, message));
        }
        let size = submit.encoded_len();
        let limit = self.frame_bytes.saturating_sub(FRAME_BYTES_AROUND);
        (size > limit).then(|| ActivationError::new(TOO_LARGE, exceeds("the activation", size, limit)))
    }

    /// The code and message for a task's output that cannot be sent. `None`: it can be sent.
    pub(super) fn refuse_output(&self, output: &[u8]) -> Option<(&'static str, String)> {
        let (size, limit) = (output.len(), self.payload_bytes);
        (size > limit).then(|| (TOO_LARGE, exceeds("output", size, limit)))
    }

    /// Cuts the message of a failure that is too long, and marks the cut with an ellipsis.
    pub(super) fn cut(&self, message: &mut String) {
        const ELLIPSIS: char = '\u{2026}';
        if message.len() > self.text_bytes {
            let end = self.text_bytes.saturating_sub(ELLIPSIS.len_utf8());
            message.truncate(message.floor_char_boundary(end));
            message.push(ELLIPSIS);
        }
    }
}

fn exceeds(what: &str, size: usize, limit: usize) -> String {
    format!("{what} has {size} bytes, the limit is {limit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { payload_bytes: 10, text_bytes: 10, commands: 2, frame_bytes: 2_048 };

    fn set_state(bytes: usize) -> v1::WorkflowCommand {
        let data = v1::SetStateCommand { key: "k".into(), value: vec![b'1'; bytes].into() };
        v1::WorkflowCommand {
            command_data: Some(CommandData::SetState(data)),
            ..v1::WorkflowCommand::default()
        }
    }

    fn complete(bytes: usize) -> v1::WorkflowCommand {
        let data = v1::CompleteWorkflowCommand { output: vec![b'1'; bytes].into() };
        let command_data = Some(CommandData::CompleteWorkflow(data));
        v1::WorkflowCommand { command_data, ..v1::WorkflowCommand::default() }
    }

    fn code(commands: Vec<v1::WorkflowCommand>) -> Option<&'static str> {
        let submit = v1::SubmitWorkflowCommandsRequest { commands, ..Default::default() };
        LIMITS.refuse(&submit).map(|error| error.code)
    }

    #[test]
    fn what_the_server_would_refuse_is_not_sent() {
        assert_eq!(code(vec![set_state(1), set_state(1), complete(10)]), None);
        assert_eq!(code(vec![complete(11)]), Some(TOO_LARGE));
        assert_eq!(code(vec![set_state(1), set_state(1), set_state(1), complete(1)]), Some(TOO_MANY));
        assert_eq!(code(vec![set_state(900)]), None);
        assert_eq!(code(vec![set_state(1_100)]), Some(TOO_LARGE));
        assert_eq!(LIMITS.refuse_output(&[b'1'; 10]), None);
        assert_eq!(LIMITS.refuse_output(&[b'1'; 11]).unwrap().0, TOO_LARGE);
    }

    #[test]
    fn a_message_that_is_too_long_is_cut_between_characters() {
        for (given, expected) in
            [("0123456789", "0123456789"), ("0123456789a", "0123456\u{2026}"), ("ééééééé", "ééé\u{2026}")]
        {
            let mut message = given.to_owned();
            LIMITS.cut(&mut message);
            assert_eq!(message, expected);
        }
    }

    #[test]
    fn a_server_that_says_nothing_has_the_usual_limits() {
        let limits = ServerLimits::default();
        limits.set(Some(v1::StreamLimits {
            payload_bytes: 10,
            text_bytes: 10,
            commands: 2,
            frame_bytes: 2_048,
        }));
        assert_eq!(limits.get(), LIMITS);
        limits.set(None);
        assert_eq!(limits.get(), Limits::default());
    }
}
