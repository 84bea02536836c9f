//! Workflows that wait, in memory: the next event is all they need. Bounded; what was used longest ago goes first.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::replay::Instance;

#[derive(Debug)]
pub(super) struct Cache {
    size: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    instances: HashMap<Uuid, (u64, Instance)>,
    /// By when they were put in.
    ages: BTreeMap<u64, Uuid>,
    clock: u64,
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
        let mut inner = self.lock();
        let (age, instance) = inner.instances.remove(&id)?;
        inner.ages.remove(&age);
        (instance.seen == seen).then_some(instance)
    }

    pub(super) fn put(&self, id: Uuid, instance: Instance) {
        if self.size == 0 {
            return;
        }
        let mut inner = self.lock();
        inner.clock += 1;
        let age = inner.clock;
        if let Some((old, _)) = inner.instances.insert(id, (age, instance)) {
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
