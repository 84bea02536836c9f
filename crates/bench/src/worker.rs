//! Workers in the same process: pollers that run the workload.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flovyn_engine::Refusal;
use flovyn_engine::reply::{Activation, TaskDelivery};
use flovyn_engine::state::WorkClass;
use flovyn_service::Service;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::workload::{self, TENANT};

/// Tasks that wait for the end of an execution. The end may arrive before the reply to the start.
#[derive(Debug, Default)]
pub(crate) struct Ends(Mutex<HashMap<Uuid, End>>);

#[derive(Debug)]
enum End {
    Awaited(oneshot::Sender<()>),
    Arrived,
}

impl Ends {
    pub(crate) async fn wait(&self, id: Uuid) {
        let receiver = {
            let mut ends = self.0.lock().expect("no holder panics");
            if let Some(End::Arrived) = ends.remove(&id) {
                return;
            }
            let (sender, receiver) = oneshot::channel();
            ends.insert(id, End::Awaited(sender));
            receiver
        };
        // An error is possible only when the benchmark itself ends and drops the sender.
        let _ = receiver.await;
    }

    fn arrived(&self, id: Uuid) {
        let mut ends = self.0.lock().expect("no holder panics");
        match ends.remove(&id) {
            Some(End::Awaited(sender)) => drop(sender.send(())),
            _ => drop(ends.insert(id, End::Arrived)),
        }
    }
}

/// Runs workflows and tasks until the service stops. There are several pollers of each class, so that one is always
/// waiting.
pub(crate) fn start(service: &Service, ends: &Arc<Ends>, slots: usize) -> Vec<JoinHandle<()>> {
    let mut workers = Vec::new();
    for number in 0..4_u128 {
        let session = Uuid::from_u128(TENANT.as_u128() + 100 + number);
        let (service, ends) = (service.clone(), ends.clone());
        workers.push(tokio::spawn(run(service, ends, WorkClass::Workflow, slots, session)));
    }
    for number in 0..4_u128 {
        let session = Uuid::from_u128(TENANT.as_u128() + 200 + number);
        let (service, ends) = (service.clone(), ends.clone());
        workers.push(tokio::spawn(run(service, ends, WorkClass::Task, slots, session)));
    }
    workers
}

async fn run(service: Service, ends: Arc<Ends>, class: WorkClass, slots: usize, session: Uuid) {
    let claim = workload::claim(class, slots, session);
    while let Ok(claimed) = service.poll(TENANT, claim.clone(), Duration::from_secs(60)).await {
        // Each item runs in its own task and the next poll begins at once, as on a worker with free slots.
        for item in claimed.workflows {
            let (service, ends) = (service.clone(), ends.clone());
            tokio::spawn(async move { report(activate(&service, &ends, &item).await) });
        }
        for item in claimed.tasks {
            let service = service.clone();
            tokio::spawn(async move { report(execute(&service, &item).await) });
        }
    }
}

fn report(result: Result<(), Refusal>) {
    if let Err(refusal) = result {
        eprintln!("refused: {refusal}");
    }
}

async fn activate(service: &Service, ends: &Ends, item: &Activation) -> Result<(), Refusal> {
    let row = &item.execution;
    if row.base_sequence == 0 {
        let task_id = workload::task_id(row.id);
        let submit = workload::schedule(row.id, item.token, row.last_sequence, task_id);
        service.call(TENANT, submit).await?;
    } else {
        service.call(TENANT, workload::complete(row.id, item.token, row.last_sequence)).await?;
        ends.arrived(row.id);
    }
    Ok(())
}

async fn execute(service: &Service, item: &TaskDelivery) -> Result<(), Refusal> {
    service.call(TENANT, workload::finish_task(item.task.id, item.token)).await.map(drop)
}
