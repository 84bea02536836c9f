//! Tenants share the batch loop: a tenant with many requests does not make the others wait behind all of them.

use flovyn_engine::Code;
use flovyn_engine::ids::TenantId;
use uuid::Uuid;

use crate::common::{Fault, Faulty, Place, TENANT, on_each_store, until, workflow};

const QUIET: TenantId = Uuid::from_u128(0xA000_0000_0000_7000_8000_0000_0000_0002);
/// More requests than fit into a few batches.
const FLOOD: usize = 1_500;

async fn one_request_of_a_tenant_is_in_the_next_batch_however_many_of_another_wait(place: Place) {
    let store = Faulty::new(place.store().await);
    let server = place.server_on(store.clone(), Default::default());
    store.hold();
    let mut first = Box::pin(server.call(TENANT, workflow("order")));
    assert!(futures::poll!(&mut first).is_pending());
    until("a batch is in flight", || store.waiting() == 1).await;
    let mut flood: Vec<_> = (0..FLOOD).map(|_| Box::pin(server.call(TENANT, workflow("order")))).collect();
    for call in &mut flood {
        assert!(futures::poll!(call).is_pending());
    }
    let mut quiet = Box::pin(server.call(QUIET, workflow("order")));
    assert!(futures::poll!(&mut quiet).is_pending());
    // This batch and the next one are written, and no batch after them.
    store.next(&[Fault::None, Fault::None]);
    store.next(&[Fault::Unavailable; FLOOD]);
    store.release();
    first.await.unwrap();
    quiet.await.expect("it is in the next batch");
    let answers = futures::future::join_all(flood).await;
    let done = answers.iter().take_while(|answer| answer.is_ok()).count();
    assert!((1..FLOOD).contains(&done), "{done} requests of the flood were in that batch as well");
    for answer in &answers[done..] {
        // Each tenant's requests are taken in their order.
        assert_eq!(answer.as_ref().unwrap_err().code, Code::StoreUnavailable);
    }
    assert_eq!(server.check().await.executions.len(), 2 + done);
}

on_each_store!(one_request_of_a_tenant_is_in_the_next_batch_however_many_of_another_wait);
