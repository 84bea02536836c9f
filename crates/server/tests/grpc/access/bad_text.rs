//! U+0000, which one of the databases cannot store, in every text field; and names that are empty or too long.

use tonic::Code;

use super::messages::{Kind, Place, is_id};
use super::spoil::{Expect, spoil};
use crate::common::Database;

const REFUSED: Expect = Expect::Refused(Code::InvalidArgument, "FLV0002");

/// Fields that must not be empty.
const NAMES: &[&str] = &[
    "workflow_kind",
    "signal_name",
    "kind",
    "key",
    "worker_name",
    "task_type",
    "child_execution_name",
    "workflow_id",
];

fn nul(field: &str) -> Expect {
    match field {
        // Spans are only logged.
        _ if field.starts_with("ReportExecutionSpans:") => Expect::Fine,
        // The name is compared in memory.
        "QueryWorkflow:query_name" => Expect::Fine,
        // The child is found by its id; its name is ignored.
        _ if field.ends_with("request_cancel_child_workflow.child_execution_name") => Expect::Fine,
        "LogMessage:level" => Expect::Refused(Code::InvalidArgument, "FLV0011"),
        "StreamTaskData:payload" => Expect::Refused(Code::InvalidArgument, "FLV0001"),
        "ListExecutions:page_token" => Expect::Refused(Code::InvalidArgument, "FLV0012"),
        // There are no visual definitions.
        "GetVisualWorkflowDefinitionById:workflow_definition_id" => {
            Expect::Refused(Code::Unimplemented, "FLV0082")
        }
        _ => REFUSED,
    }
}

fn text(place: &Place) -> bool {
    place.kind == Kind::Text && !is_id(&place.path)
}

fn nul_in_id(field: &str) -> Expect {
    match field {
        _ if field.ends_with("org_id") => Expect::Refused(Code::PermissionDenied, "FLV0081"),
        _ if field.starts_with("ReportExecutionSpans:") => Expect::Fine,
        "Connect:task_heartbeats.task_execution_id" => Expect::Fine,
        // A subscription ignores the worker's id.
        "SubscribeToNotifications:worker_id" => Expect::Fine,
        "PollWorkflow:worker_id" | "PollTask:worker_id" | "SignalWithStartWorkflow:workflow_id" => REFUSED,
        _ => Expect::Refused(Code::InvalidArgument, "FLV0004"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn u0000_is_refused_in_every_text() {
    spoil(Database::Sqlite, text, b"a\0b", nul).await;
}

/// PostgreSQL cannot even search for U+0000, so the request must be refused before the database is queried.
#[tokio::test(flavor = "multi_thread")]
async fn u0000_is_refused_in_every_text_before_postgres_sees_it() {
    spoil(Database::Postgres, text, b"a\0b", nul).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn u0000_is_refused_in_every_id() {
    spoil(Database::Sqlite, |place| is_id(&place.path), b"a\0b", nul_in_id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn u0000_is_refused_in_every_id_before_postgres_sees_it() {
    spoil(Database::Postgres, |place| is_id(&place.path), b"a\0b", nul_in_id).await;
}

fn name(place: &Place) -> bool {
    let last = place.path.rsplit('.').next().unwrap_or_default();
    NAMES.contains(&last) && place.kind == Kind::Text && !place.path.contains("request_cancel_child")
}

fn empty(field: &str) -> Expect {
    match field {
        "ReportExecutionSpans:spans.workflow_id" => Expect::Fine,
        // An empty field means no filter.
        "ListExecutions:kind" | "ListExecutions:key" => Expect::Fine,
        // Neither a key nor an id is given.
        "GetExecution:key" => Expect::Refused(Code::InvalidArgument, "FLV0004"),
        // The kind is optional in the message, so a missing kind is an error of the command.
        _ if field.ends_with("schedule_child_workflow.workflow_kind") => {
            Expect::Refused(Code::InvalidArgument, "FLV0009")
        }
        _ => Expect::Refused(Code::InvalidArgument, "FLV0003"),
    }
}

fn long(field: &str) -> Expect {
    match field {
        // Nothing has such a name, and spans are only logged.
        "ListExecutions:kind" | "ListExecutions:key" | "ReportExecutionSpans:spans.workflow_id" => {
            Expect::Fine
        }
        "GetExecution:key" => Expect::Refused(Code::NotFound, "FLV0031"),
        _ => Expect::Refused(Code::InvalidArgument, "FLV0003"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_names_are_refused() {
    spoil(Database::Sqlite, name, b"", empty).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_256_characters_are_refused() {
    spoil(Database::Sqlite, name, "\u{e9}".repeat(256).as_bytes(), long).await;
}
