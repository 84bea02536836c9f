//! Claims: requests for work.

use crate::ids::{TenantId, Text, WorkerId};
use crate::state::{Lane, PlaceInLane, WorkClass};

/// The worker that asks for work, and the parts of the protocol that it supports.
#[derive(Debug, Clone, PartialEq)]
pub struct Claimer {
    /// The worker's name, for display.
    pub worker: Text,
    /// The worker's row in the worker table; its heartbeats keep the claim alive. `None`: the claim has a lease of
    /// its own.
    pub session: Option<WorkerId>,
    /// Speaks the plain public protocol: sends no token and no base sequence.
    pub plain: bool,
    /// The worker receives cancel requests and cleans up by itself.
    pub cooperative: bool,
    /// The worker's build. `None`: the worker named none, so it takes no execution that is held back.
    pub build: Option<Text>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ClaimKind {
    /// Workflow kind or task type.
    pub kind: Text,
    /// Versions of a workflow kind that the worker has. Work that asks for no version is always included.
    pub versions: Vec<Text>,
    /// How long the worker lets a task of this type run. `None`: it did not say so when it registered.
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
    /// Direct hand-off: take only these rows, which the same batch made ready.
    pub only: Option<Vec<PlaceInLane>>,
    /// Also take executions whose start is written together with their first step. Until then the worker holds back
    /// actions that cannot be undone.
    pub provisional: bool,
    /// Also search executions that are held back because other builds failed on them. Only set on claims that are
    /// likely to find some.
    pub held_back: bool,
}

impl ClaimKind {
    /// Matches every kind in the queue, for a worker that has not registered its capabilities. Only direct hand-off
    /// supports this; a claim that searches must name its kinds.
    pub fn any() -> Self {
        Self { kind: Text::default(), versions: Vec::new(), timeout_ms: None }
    }

    pub fn is_any(&self) -> bool {
        self.kind.is_empty()
    }
}

impl Claim {
    /// This claim, extended by the kind and version of the lane. A claim of any kind needs it to take work of that
    /// lane.
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

    /// The lanes that this claim searches.
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

    /// The lanes that a waiting worker is interested in: the searched lanes and those of held-back executions.
    pub fn awaited_lanes(&self, tenant_id: TenantId) -> Vec<Lane> {
        let mut lanes = self.lanes(tenant_id);
        if !self.held_back {
            lanes.extend(self.held_back_lanes(tenant_id));
        }
        lanes
    }

    /// The lanes of executions that other builds may have failed on. Empty for a worker that names no build.
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
