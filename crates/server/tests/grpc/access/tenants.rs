//! Every rpc with another tenant's credential and this tenant's ids in every id field.

use flovyn_proto::v1;
use prost::Message;
use tonic::Code;

use super::table::{Entry, Foreign, entries};
use super::wire::{CONNECT, EXECUTE, Outcome, call, send};
use super::world::{Ids, SECRET, World};
use crate::common::{OTHER_TENANT, OTHER_TOKEN, TOKEN};

/// Long enough for reports that are written later.
const WRITTEN_BY_MS: i64 = 1_500;

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_credential_changes_nothing_and_sees_nothing() {
    let world = World::new().await;
    let rows = world.rows().await;
    for entry in entries() {
        let unnamed = Ids { org: String::new(), ..world.ids.clone() };
        // Random ids differ each time; the lengths show whether the request names a tenant at all.
        let length = |ids: &Ids| (entry.frames)(ids).iter().map(Vec::len).sum::<usize>();
        let names_tenant = length(&world.ids) != length(&unnamed);
        for (ids, named) in [(&world.ids, names_tenant), (&unnamed, false)] {
            let outcome = call(&world.server, entry.path, (entry.frames)(ids), OTHER_TOKEN).await;
            judge(&entry, ids, named, &outcome);
            assert!(!outcome.contains(SECRET), "{} gives away a payload: {outcome:?}", entry.path);
            assert_eq!(world.rows().await, rows, "{} changed rows of another tenant", entry.path);
        }
    }
    // The execution continues, so the server waits. Reports that it had buffered are written in the meantime.
    let wait = v1::WaitForResultRequest {
        workflow_execution_id: world.ids.execution.clone(),
        timeout_ms: WRITTEN_BY_MS,
    };
    let waited = send(&world.server, "WorkflowClient/WaitForResult", &wait, TOKEN).await;
    assert_eq!(waited.reply::<v1::ExecutionInfo>().status, "RUNNING");
    assert_eq!(world.rows().await, rows, "something was written late");
}

fn judge(entry: &Entry, ids: &Ids, named: bool, outcome: &Outcome) {
    let context = || format!("{} (tenant named: {named}): {outcome:?}", entry.path);
    if entry.path == EXECUTE {
        return judge_items(named, outcome);
    }
    if named {
        assert!(outcome.is(Code::PermissionDenied, "FLV0081"), "{}", context());
        return;
    }
    match entry.foreign {
        Foreign::Missing => {
            let missing = ["FLV0031", "FLV0032", "FLV0033", "FLV0034"];
            assert_eq!(outcome.grpc, Code::NotFound, "{}", context());
            assert!(missing.contains(&outcome.flv.as_str()), "{}", context());
        }
        Foreign::Own if entry.path == CONNECT => judge_stream(ids, outcome),
        Foreign::Own => {
            assert_eq!(outcome.grpc, entry.control, "{}", context());
            let reads = ["PollWorkflow", "PollTask", "SubscribeToNotifications", "ListExecutions"];
            if reads.iter().any(|method| entry.path.ends_with(method)) {
                // The caller may see what it started itself, but nothing of the tenant whose ids it names.
                for id in [&ids.execution, &ids.child, &ids.task, &ids.org] {
                    assert!(id.is_empty() || !outcome.contains(id), "{}", context());
                }
            }
        }
    }
}

/// Each item is refused separately: the execution is not found, and it cannot be a parent.
fn judge_items(named: bool, outcome: &Outcome) {
    assert_eq!(outcome.grpc, Code::Ok, "{outcome:?}");
    let frames = outcome.frames.iter().map(|frame| v1::ExecuteReply::decode(&frame[..]).unwrap());
    let (mut refused, mut others) = (Vec::new(), 0);
    for frame in frames {
        others += frame.started.len() + frame.ended.len();
        refused.extend(frame.refused.into_iter().map(|item| (item.r#ref, item.code)));
    }
    refused.sort_unstable();
    let start = if named { "FLV0081" } else { "FLV0031" };
    let expected = [(1, "FLV0031"), (2, start)].map(|(number, code)| (number, code.to_owned()));
    assert_eq!((refused, others), (expected.to_vec(), 0));
}

/// A session with the same id in another tenant is another session: it has no claims, and its results do not count.
fn judge_stream(ids: &Ids, outcome: &Outcome) {
    assert_eq!(outcome.grpc, Code::Ok, "{outcome:?}");
    let frames: Vec<v1::ServerFrame> =
        outcome.frames.iter().map(|frame| v1::ServerFrame::decode(&frame[..]).unwrap()).collect();
    let mut lost = frames[0].welcome.clone().unwrap().lost;
    lost.sort_unstable();
    let mut held = vec![ids.execution.clone(), ids.task.clone()];
    held.sort_unstable();
    assert_eq!(lost, held);
    let mut acks: Vec<(u64, String)> =
        frames.iter().flat_map(|frame| &frame.acks).map(|ack| (ack.r#ref, ack.code.clone())).collect();
    acks.sort_unstable();
    // A session that only releases claims sends one result.
    let expected =
        [(1, "FLV0031"), (2, "FLV0032"), (3, "FLV0032")].map(|(number, code)| (number, code.to_owned()));
    assert!(acks == expected || acks == expected[..1], "{acks:?}");
    // The work that it received is its own, because it has started executions of these kinds itself.
    for activation in frames.iter().flat_map(|frame| &frame.activations) {
        assert_eq!(activation.org_id, OTHER_TENANT.to_string());
    }
    assert!(frames.iter().flat_map(|frame| &frame.tasks).all(|task| task.task_execution_id != ids.task));
}
