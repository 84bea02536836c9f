//! Asking for work.

use crate::ids::{TenantId, Text, WorkerId};
use crate::state::{Lane, PlaceInLane, WorkClass};

/// Who asks for work, and what it understands.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimer {
    /// Shown to people.
    pub worker: Text,
    /// Its row in the worker table, whose heartbeats keep the claim alive.
    pub session: Option<WorkerId>,
    /// Speaks the plain public protocol: sends no token and no base sequence.
    pub plain: bool,
    /// Learns of cancel requests and cleans up by itself.
    pub cooperative: bool,
    /// Its build, where it said so. `None`: it takes no execution that is held back.
    pub build: Option<Text>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ClaimKind {
    /// Workflow kind or task type.
    pub kind: Text,
    /// Versions of a workflow kind that the worker has. Work that asks for no version is always included.
    pub versions: Vec<Text>,
    /// How long the worker lets a task of this type run, if it said so when it registered.
    pub timeout_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Workflows or tasks.
    pub class: WorkClass,
    pub claimer: Claimer,
    pub queue: Text,
    pub kinds: Vec<ClaimKind>,
    pub max: usize,
    /// Direct hand-off: only these, made ready by the same batch.
    pub only: Option<Vec<PlaceInLane>>,
    /// Also takes executions whose start is written together with their first step, and holds back until then what
    /// cannot be undone.
    pub provisional: bool,
    /// Also searches executions that are held back since other builds failed on them. Only claims that are likely to find some do.
    pub held_back: bool,
}

impl ClaimKind {
    /// Every kind in the queue, for a worker that has not said what it can do. Only direct hand-off matches it: who
    /// searches names kinds.
    pub fn any() -> Self {
        Self { kind: Text::default(), versions: Vec::new(), timeout_ms: None }
    }

    pub fn is_any(&self) -> bool {
        self.kind.is_empty()
    }
}

impl Claim {
    /// The same claim, with the kind and version of this lane among its kinds: a claim of any kind takes it.
    pub fn with_lane(mut self, lane: &Lane) -> Self {
        let versions = if lane.version.is_empty() { Vec::new() } else { vec![lane.version.clone()] };
        match self.kinds.iter_mut().find(|kind| kind.kind == lane.kind) {
            Some(kind) if versions.is_empty() || kind.versions.contains(&lane.version) => {}
            Some(kind) => kind.versions.extend(versions),
            None => self.kinds.push(ClaimKind { kind: lane.kind.clone(), versions, timeout_ms: None }),
        }
        self
    }

    pub fn is_any(&self) -> bool {
        self.kinds.iter().any(ClaimKind::is_any)
    }

    /// The lanes that it searches.
    pub fn lanes(&self, tenant_id: TenantId) -> Vec<Lane> {
        let mut lanes = self.lanes_of(tenant_id, self.class);
        if self.class == WorkClass::Workflow && !self.claimer.plain {
            lanes.extend(self.lanes_of(tenant_id, WorkClass::LargeWorkflow));
        }
        if self.held_back {
            lanes.extend(self.held_back_lanes(tenant_id));
        }
        lanes
    }

    /// The lanes that a worker waits for: also those that it does not search each time.
    pub fn awaited_lanes(&self, tenant_id: TenantId) -> Vec<Lane> {
        let mut lanes = self.lanes(tenant_id);
        if !self.held_back {
            lanes.extend(self.held_back_lanes(tenant_id));
        }
        lanes
    }

    /// Where executions wait that other builds may have failed on. None for a worker that names no build.
    pub fn held_back_lanes(&self, tenant_id: TenantId) -> Vec<Lane> {
        match self.class == WorkClass::Workflow && self.claimer.build.is_some() {
            true => self.lanes_of(tenant_id, WorkClass::HeldBack),
            false => Vec::new(),
        }
    }

    fn lanes_of(&self, tenant_id: TenantId, class: WorkClass) -> Vec<Lane> {
        let lane = |kind: &ClaimKind, version: Text| Lane {
            tenant_id,
            class,
            queue: self.queue.clone(),
            kind: kind.kind.clone(),
            version,
        };
        let mut lanes = Vec::with_capacity(self.kinds.len());
        for kind in &self.kinds {
            lanes.push(lane(kind, Text::default()));
            if self.class == WorkClass::Workflow {
                lanes.extend(kind.versions.iter().map(|version| lane(kind, version.clone())));
            }
        }
        lanes
    }
}
