//! The newest events that this process wrote, by execution, in memory. A worker that continues with a cached instance
//! receives them without a read of the database.
//!
//! This is only a shortcut. Events never change and their numbers have no gaps. So a tail that reaches from the
//! worker's last event to the execution's last event is complete, even if other processes write to the database.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flovyn_engine::event::DeliveredEvent;
use flovyn_engine::ids::{TaskId, TenantId};
use flovyn_engine::reply::Activation;
use flovyn_engine::state::{Event, Task};
use flovyn_engine::{Change, INLINE_EVENTS, Mutations};
use rustc_hash::FxHashMap;

use crate::watch::Subject;

/// The most content of all tails, in bytes. Beyond it, the oldest tails are dropped.
const MAX_BYTES: usize = 8 << 20;
/// The memory of an event besides its content, in bytes.
const OVERHEAD: usize = 256;

#[derive(Debug, Default)]
struct Tail {
    events: VecDeque<DeliveredEvent>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Inner {
    tails: FxHashMap<Subject, Tail>,
    /// The subjects in the order in which their tails were added. Some tails have been removed since.
    order: VecDeque<Subject>,
    bytes: usize,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Tails {
    inner: Arc<Mutex<Inner>>,
}

/// An event that a batch wrote for one execution. `None` if the execution's tail is no longer useful: after a terminal
/// event, or after an event whose task the batch did not write.
pub(crate) type Written = (Subject, Option<DeliveredEvent>);

/// New events, in order.
pub(crate) fn written(mutations: &Mutations) -> Vec<Written> {
    let inserted = mutations.events.iter().filter_map(|change| match change {
        Change::Insert(event) => Some(event),
        _ => None,
    });
    inserted.map(|event| written_one(mutations, event)).collect()
}

fn written_one(mutations: &Mutations, event: &Event) -> Written {
    let delivered = match event.kind.is_terminal() {
        true => None,
        false => event.delivered(|task_id| task(mutations, (event.tenant_id, task_id))),
    };
    ((event.tenant_id, event.execution_id), delivered)
}

/// A task that the same batch wrote. Changes are sorted by key.
fn task(mutations: &Mutations, key: (TenantId, TaskId)) -> Option<&Task> {
    let index = mutations.tasks.binary_search_by(|change| row(change).key().cmp(&key)).ok()?;
    Some(row(&mutations.tasks[index]))
}

fn row(change: &Change<Task>) -> &Task {
    match change {
        Change::Insert(row) | Change::Update { row, .. } | Change::Delete { row, .. } => row,
    }
}

fn bytes((event, payloads): &DeliveredEvent) -> usize {
    let payload =
        |payload: &Option<flovyn_engine::ids::Payload>| payload.as_ref().map_or(0, |bytes| bytes.len());
    let of_task = payloads.as_ref().map_or(0, |task| payload(&task.input) + payload(&task.output));
    OVERHEAD + payload(&event.payload) + of_task
}

impl Tails {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().tails.is_empty()
    }

    pub(crate) fn clear(&self) {
        *self.lock() = Inner::default();
    }

    /// Adds the events of a batch. Called before workers receive work because of them.
    pub(crate) fn add(&self, written: Vec<Written>) {
        if written.is_empty() {
            return;
        }
        let mut inner = self.lock();
        for (subject, event) in written {
            match event {
                Some(event) => inner.add(subject, event),
                None => inner.remove(&subject),
            }
        }
        while inner.bytes > MAX_BYTES {
            let Some(oldest) = inner.order.pop_front() else { break };
            inner.remove(&oldest);
        }
    }

    /// Adds the events that the worker has not seen, if all of them are here.
    pub(crate) fn complete(&self, activations: &mut [Activation]) {
        if activations.iter().all(|activation| activation.new_events.is_some()) {
            return;
        }
        let mut inner = self.lock();
        for activation in activations.iter_mut().filter(|activation| activation.new_events.is_none()) {
            let execution = &activation.execution;
            // A worker that starts from the first event needs everything, including payloads of tasks that it did not
            // schedule.
            let unseen = execution.last_sequence - execution.base_sequence;
            if execution.base_sequence > 0 && unseen <= INLINE_EVENTS {
                let subject = (execution.tenant_id, execution.id);
                activation.new_events =
                    inner.between(&subject, execution.base_sequence, execution.last_sequence);
            }
        }
    }
}

impl Inner {
    fn add(&mut self, subject: Subject, event: DeliveredEvent) {
        let size = bytes(&event);
        if !self.tails.contains_key(&subject) {
            self.order.push_back(subject);
        }
        let tail = self.tails.entry(subject).or_default();
        if tail.events.back().is_some_and(|(last, _)| last.sequence + 1 != event.0.sequence) {
            // Another process wrote events in between.
            self.bytes -= tail.bytes;
            *tail = Tail::default();
        }
        tail.events.push_back(event);
        tail.bytes += size;
        self.bytes += size;
    }

    fn remove(&mut self, subject: &Subject) {
        if let Some(tail) = self.tails.remove(subject) {
            self.bytes -= tail.bytes;
        }
        // Subjects whose tails have gone are removed from time to time, so that they do not accumulate.
        if self.order.len() > 2 * self.tails.len() + 1_024 {
            let tails = &self.tails;
            self.order.retain(|subject| tails.contains_key(subject));
        }
    }

    /// The events after `base` up to `last`. `None` unless all of them are here. Events up to `base` are dropped,
    /// because they are no longer needed.
    fn between(&mut self, subject: &Subject, base: i64, last: i64) -> Option<Vec<DeliveredEvent>> {
        let tail = self.tails.get_mut(subject)?;
        while let Some(event) = tail.events.pop_front_if(|(event, _)| event.sequence <= base) {
            let size = bytes(&event);
            tail.bytes -= size;
            self.bytes -= size;
        }
        let first = tail.events.front().map(|(event, _)| event.sequence);
        let end = tail.events.back().map(|(event, _)| event.sequence);
        (first == Some(base + 1) && end == Some(last)).then(|| tail.events.iter().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use flovyn_engine::event::EventKind;
    use flovyn_engine::state::Origin;
    use uuid::Uuid;

    use super::*;

    const SUBJECT: Subject = (Uuid::from_u128(1), Uuid::from_u128(2));

    fn event(sequence: i64, kind: EventKind) -> Event {
        Event {
            tenant_id: SUBJECT.0,
            execution_id: SUBJECT.1,
            sequence,
            kind,
            origin: Origin::External,
            time_ms: 0,
            subject: None,
            name: None,
            text: None,
            number: None,
            payload: None,
        }
    }

    fn sequences(tails: &Tails, base: i64, last: i64) -> Option<Vec<i64>> {
        let found = tails.lock().between(&SUBJECT, base, last);
        found.map(|events| events.iter().map(|(event, _)| event.sequence).collect())
    }

    /// The changes of a batch that wrote these events.
    fn batch(events: impl IntoIterator<Item = Event>) -> Vec<Written> {
        let events = events.into_iter().map(Change::Insert).collect();
        written(&Mutations { events, ..Mutations::default() })
    }

    fn signals(range: std::ops::RangeInclusive<i64>) -> Vec<Written> {
        batch(range.map(|sequence| event(sequence, EventKind::SignalReceived)))
    }

    #[test]
    fn only_a_tail_that_reaches_from_base_to_end_is_given() {
        let tails = Tails::default();
        tails.add(signals(3..=6));
        assert_eq!(sequences(&tails, 1, 6), None, "2 is missing");
        assert_eq!(sequences(&tails, 2, 7), None, "another process wrote event 7");
        assert_eq!(sequences(&tails, 2, 6), Some(vec![3, 4, 5, 6]));
        assert_eq!(sequences(&tails, 4, 6), Some(vec![5, 6]));
    }

    #[test]
    fn what_another_process_wrote_in_between_begins_a_new_tail() {
        let tails = Tails::default();
        tails.add(signals(3..=4));
        tails.add(signals(6..=7));
        assert_eq!(sequences(&tails, 2, 7), None);
        assert_eq!(sequences(&tails, 5, 7), Some(vec![6, 7]));
    }

    #[test]
    fn an_end_and_an_event_that_cannot_be_shown_clear_it() {
        let tails = Tails::default();
        tails.add(signals(1..=2));
        tails.add(batch([event(3, EventKind::WorkflowCompleted)]));
        assert_eq!(sequences(&tails, 0, 2), None);
        tails.add(signals(1..=2));
        let mut completed = event(3, EventKind::TaskCompleted);
        completed.subject = Some(Uuid::from_u128(9));
        tails.add(batch([completed]));
        assert_eq!(sequences(&tails, 1, 3), None, "its task was not written with it");
        let inner = tails.lock();
        assert_eq!((inner.bytes, inner.tails.len()), (0, 0));
    }

    #[test]
    fn the_oldest_are_given_up_when_there_is_too_much() {
        let tails = Tails::default();
        let of = |number: u128| {
            let mut event = event(1, EventKind::SignalReceived);
            event.execution_id = Uuid::from_u128(number);
            event.payload = Some(vec![b'1'; 1 << 20].into());
            batch([event])
        };
        for number in 0..20 {
            tails.add(of(number));
        }
        let inner = tails.lock();
        assert!(inner.bytes <= MAX_BYTES, "{}", inner.bytes);
        assert!(!inner.tails.contains_key(&(SUBJECT.0, Uuid::from_u128(0))));
        assert!(inner.tails.contains_key(&(SUBJECT.0, Uuid::from_u128(19))));
    }
}
