//! Workflows that wait, in memory: the next event is all they need. Bounded; what was used longest ago goes first.
//!
//! One is put in when its step is sent, and goes when the step is refused. That is early enough: until the step is accepted the
//! server says nothing that would fit what the instance has seen.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::replay::Instance;

#[derive(Debug)]
pub(super) struct Cache {
    size: usize,
    inner: Mutex<Inner>,
}

/// A workflow that waits.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) instance: Instance,
    /// Claim of its last step.
    pub(super) token: i64,
}

#[derive(Debug, Default)]
struct Inner {
    instances: HashMap<Uuid, (u64, Kept)>,
    /// By when they were put in.
    ages: BTreeMap<u64, Uuid>,
    clock: u64,
}

impl Inner {
    fn remove(&mut self, id: Uuid) -> Option<Kept> {
        let (age, kept) = self.instances.remove(&id)?;
        self.ages.remove(&age);
        Some(kept)
    }
}

impl Cache {
    pub(super) fn new(size: usize) -> Self {
        Self { size, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the instance out, if it has seen exactly this much of the log.
    pub(super) fn take(&self, id: Uuid, seen: i64) -> Option<Instance> {
        let kept = self.lock().remove(id)?;
        (kept.instance.seen == seen).then_some(kept.instance)
    }

    /// Takes the instance out, if it is as wanted.
    pub(super) fn take_if(&self, id: Uuid, wanted: impl FnOnce(&Instance) -> bool) -> Option<Kept> {
        let mut inner = self.lock();
        let (_, kept) = inner.instances.get(&id)?;
        wanted(&kept.instance).then(|| inner.remove(id))?
    }

    /// Drops the instance, if it is as it was after this claim.
    pub(super) fn forget(&self, id: Uuid, token: i64) {
        let mut inner = self.lock();
        let stale = inner.instances.get(&id).is_some_and(|(_, kept)| kept.token == token);
        let dropped = stale.then(|| inner.remove(id));
        // Without the lock: it is users' code that goes with it.
        drop(inner);
        drop(dropped);
    }

    pub(super) fn put(&self, id: Uuid, kept: Kept) {
        if self.size == 0 {
            return;
        }
        let mut inner = self.lock();
        inner.clock += 1;
        let age = inner.clock;
        if let Some((old, _)) = inner.instances.insert(id, (age, kept)) {
            inner.ages.remove(&old);
        }
        inner.ages.insert(age, id);
        let mut dropped = Vec::new();
        while inner.instances.len() > self.size
            && let Some((_, oldest)) = inner.ages.pop_first()
        {
            dropped.extend(inner.instances.remove(&oldest));
        }
        // Without the lock: it is users' code that goes with them.
        drop(inner);
        drop(dropped);
    }
}
