//! A history that does not fit into one message of the public protocol.

use flovyn_proto::v1;
use serde_json::json;
use tonic::Code;

use super::client::{Plain, WORKER};
use super::messages::{GetEventsRequest, GetEventsResponse};
use crate::common::{TestServer, on_both};

on_both!(it_is_kept_from_plain_workers_and_read_in_pages);

const SIGNALS: usize = 8;
const SIGNAL_BYTES: usize = 900 << 10;

async fn it_is_kept_from_plain_workers_and_read_in_pages(server: TestServer) {
    let client = Plain::of(&server);
    client.register(WORKER, &["big", "small"], &[]).await;
    let id = client.start("big", json!(null)).await;
    client.claim(&id).await;
    client.suspend(&id, vec![]).await;
    for number in 0..SIGNALS {
        let value = json!({"number": number, "text": "x".repeat(SIGNAL_BYTES)});
        client.signal(&id, "part", value).await.unwrap();
    }
    // The execution is runnable, but this worker could not read its history. Other executions are not delayed.
    client.assert_no_workflow().await;
    assert_eq!(client.query(&id, "__waiting").await[0]["kind"], "NO_STREAM_WORKER");
    let small = client.start("small", json!(null)).await;
    client.claim(&small).await;

    let request = GetEventsRequest { workflow_execution_id: id.clone() };
    let refused =
        client.call::<_, GetEventsResponse>("WorkflowDispatch/GetEvents", request).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.metadata().get("flovyn-error-code").unwrap(), "FLV0027");

    for page_size in [1, 3, 1_000] {
        assert_eq!(paged(&client, &id, page_size).await, SIGNALS + 1);
    }
}

/// Reads all pages with the additional fields of GetEvents. Returns the number of events.
async fn paged(client: &Plain, id: &str, page_size: i32) -> usize {
    let mut last = 0;
    let mut numbers = Vec::new();
    loop {
        let request = v1::GetEventsRequest {
            workflow_execution_id: id.into(),
            after_sequence: last,
            page_size: Some(page_size),
        };
        let page: v1::GetEventsResponse = client.call("WorkflowDispatch/GetEvents", request).await.unwrap();
        assert!(page.events.len() <= usize::try_from(page_size).unwrap());
        for event in page.events {
            if event.event_type == "SIGNAL_RECEIVED" {
                assert!(event.event_data.len() > SIGNAL_BYTES);
            }
            numbers.push(event.sequence_number);
        }
        last = page.next_sequence;
        if last == 0 {
            break;
        }
    }
    for (number, expected) in numbers.iter().zip(1..) {
        assert_eq!(*number, expected);
    }
    numbers.len()
}
