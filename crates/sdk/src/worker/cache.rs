//! The cache of waiting workflows: they need only new events, no replay. The cache is bounded; the least recently
//! used entry is evicted first.
//!
//! A workflow is cached when its step is sent. Until the server accepts that step, the cached state may be ahead of
//! the log, so an activation does not use it. A task's success may use it (see `ahead`), because the
//! server checks that the step matches its log.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::replay::Instance;

#[derive(Debug)]
pub(super) struct Cache {
    size: usize,
    inner: Mutex<Inner>,
}

/// A cached workflow.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) instance: Instance,
    /// Claim token of its last step.
    pub(super) token: i64,
}

/// Identifies an entry until the entry is taken or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

#[derive(Debug)]
struct Entry {
    ticket: Ticket,
    /// `None` while the workflow runs ahead of its log.
    kept: Option<Kept>,
    accepted: bool,
}

#[derive(Debug, Default)]
struct Inner {
    entries: HashMap<Uuid, Entry>,
    /// Entries in the order of insertion.
    ages: BTreeMap<Ticket, Uuid>,
    clock: u64,
}

impl Inner {
    fn next(&mut self) -> Ticket {
        self.clock += 1;
        Ticket(self.clock)
    }

    fn remove(&mut self, id: Uuid) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.ages.remove(&entry.ticket);
        Some(entry)
    }

    fn named(&mut self, id: Uuid, ticket: Ticket) -> Option<&mut Entry> {
        self.entries.get_mut(&id).filter(|entry| entry.ticket == ticket)
    }
}

impl Cache {
    pub(super) fn new(size: usize) -> Self {
        Self { size, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For an activation: takes the instance if it has seen exactly the events up to `seen`. Any other instance of
    /// the execution does not match the log and is dropped.
    pub(super) fn take(&self, id: Uuid, seen: i64) -> Option<Instance> {
        let entry = self.lock().remove(id)?;
        let kept = entry.kept.filter(|_| entry.accepted)?;
        (kept.instance.seen == seen).then_some(kept.instance)
    }

    /// For running ahead: takes the instance if `wanted` accepts it, and keeps its entry reserved.
    pub(super) fn take_if(&self, id: Uuid, wanted: impl FnOnce(&Instance) -> bool) -> Option<(Ticket, Kept)> {
        let mut inner = self.lock();
        let entry = inner.entries.get_mut(&id)?;
        let ticket = entry.ticket;
        let kept = entry.kept.take_if(|kept| wanted(&kept.instance))?;
        Some((ticket, kept))
    }

    /// Returns the instance to its reserved entry. `None`: an activation arrived in the meantime and took the entry.
    pub(super) fn put_back(&self, id: Uuid, ticket: Ticket, kept: Kept) -> Option<Ticket> {
        let mut inner = self.lock();
        inner.named(id, ticket)?;
        Some(self.insert(inner, id, kept))
    }

    /// Caches an instance whose step the server has not accepted yet.
    pub(super) fn put(&self, id: Uuid, kept: Kept) -> Ticket {
        self.insert(self.lock(), id, kept)
    }

    fn insert(&self, mut inner: MutexGuard<'_, Inner>, id: Uuid, kept: Kept) -> Ticket {
        let ticket = inner.next();
        let mut dropped = vec![inner.remove(id)];
        inner.entries.insert(id, Entry { ticket, kept: Some(kept), accepted: false });
        inner.ages.insert(ticket, id);
        while inner.entries.len() > self.size
            && let Some((_, oldest)) = inner.ages.pop_first()
        {
            dropped.push(inner.entries.remove(&oldest));
        }
        // Drop without the lock, because dropping a workflow runs user code.
        drop(inner);
        drop(dropped);
        ticket
    }

    /// Handles the server's answer to a step. The instance stays cached only if the server accepted the step;
    /// otherwise cache and log would differ.
    pub(super) fn settle(&self, id: Uuid, ticket: Ticket, accepted: bool) {
        if accepted {
            self.accept(id, ticket);
        } else {
            self.forget(id, ticket);
        }
    }

    fn accept(&self, id: Uuid, ticket: Ticket) {
        if let Some(entry) = self.lock().named(id, ticket) {
            entry.accepted = true;
        }
    }

    /// Drops the entry, because the server does not have its step or the workflow has ended. `false`: the entry was
    /// gone already.
    pub(super) fn forget(&self, id: Uuid, ticket: Ticket) -> bool {
        let mut inner = self.lock();
        let dropped = inner.named(id, ticket).is_some().then(|| inner.remove(id));
        drop(inner);
        dropped.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{Core, Shared};

    const ID: Uuid = Uuid::from_u128(1);

    fn kept(token: i64, seen: i64) -> Kept {
        let mut instance =
            Instance::new(Shared::new(Core::new(ID, "w", 0)), Box::pin(std::future::pending()));
        instance.seen = seen;
        Kept { instance, token }
    }

    #[test]
    fn an_activation_uses_only_what_the_server_has_accepted() {
        let cache = Cache::new(9);
        cache.put(ID, kept(1, 5));
        assert!(cache.take(ID, 5).is_none(), "the server may refuse its step");
        let ticket = cache.put(ID, kept(2, 5));
        assert!(
            cache.take_if(ID, |_| true).is_some_and(|(_, kept)| kept.token == 2),
            "the server checks the step"
        );
        let again = cache.put_back(ID, ticket, kept(2, 5)).unwrap();
        cache.accept(ID, ticket);
        assert!(cache.take(ID, 5).is_none(), "the acknowledgement was for another step");
        let ticket = cache.put(ID, kept(3, 5));
        cache.accept(ID, again);
        cache.accept(ID, ticket);
        assert!(cache.take(ID, 5).is_some());
    }

    #[test]
    fn what_goes_ahead_gives_way_to_an_activation() {
        let cache = Cache::new(9);
        let ticket = cache.put(ID, kept(1, 5));
        cache.accept(ID, ticket);
        let (ticket, ahead) = cache.take_if(ID, |_| true).unwrap();
        assert!(cache.take(ID, 5).is_none(), "it is taken");
        assert_eq!(cache.put_back(ID, ticket, ahead), None, "it does not match the log");
        let replayed = cache.put(ID, kept(2, 6));
        cache.accept(ID, replayed);
        assert!(cache.take(ID, 6).is_some(), "the replayed instance is still cached");
    }

    #[test]
    fn a_refusal_takes_only_what_it_is_about() {
        let cache = Cache::new(9);
        let refused = cache.put(ID, kept(2, 6));
        let replayed = cache.put(ID, kept(2, 6));
        cache.accept(ID, replayed);
        assert!(!cache.forget(ID, refused));
        assert!(cache.take(ID, 6).is_some());
        let refused = cache.put(ID, kept(3, 7));
        assert!(cache.forget(ID, refused));
        assert!(cache.take_if(ID, |_| true).is_none());
    }

    #[test]
    fn the_oldest_goes_first_and_without_room_nothing_stays() {
        let cache = Cache::new(1);
        let first = cache.put(ID, kept(1, 5));
        cache.accept(ID, first);
        cache.put(Uuid::from_u128(2), kept(1, 5));
        assert!(cache.take(ID, 5).is_none());
        let none = Cache::new(0);
        let ticket = none.put(ID, kept(1, 5));
        none.accept(ID, ticket);
        assert!(none.take(ID, 5).is_none());
    }
}
