//! The definitions of a worker: workflows by kind and version, tasks by type.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::definition::{AnyTask, AnyWorkflow, Schemas};
use crate::error::{Error, Result};

/// One version of a kind of workflow.
struct Version {
    /// `None`: registered without a version.
    name: Option<String>,
    schemas: Schemas,
    definition: Arc<dyn AnyWorkflow>,
}

/// All versions of a kind of workflow, in the order of registration. Never empty.
pub(super) struct WorkflowKind {
    versions: Vec<Version>,
    /// Set when a workflow of this kind needed a value that only the log can provide (such as the time), or its step
    /// was too large. Then workflows of this kind no longer run ahead of the log.
    pub(super) needs_log: AtomicBool,
}

impl WorkflowKind {
    /// Names of the versions. A definition without a version has no name.
    pub(super) fn versions(&self) -> Vec<String> {
        self.versions.iter().filter_map(|version| version.name.clone()).collect()
    }

    /// Schemas of the definition that runs executions without a version.
    pub(super) fn schemas(&self) -> Option<&Schemas> {
        self.find(None).map(|version| &version.schemas)
    }

    /// The definition for an execution that names this version. An execution without a version runs on the definition
    /// without a version, or else on the one that was registered first. Definitions registered later must not take
    /// such executions over.
    fn find(&self, name: Option<&str>) -> Option<&Version> {
        let exact = self.versions.iter().find(|version| version.name.as_deref() == name);
        exact.or_else(|| if name.is_none() { self.versions.first() } else { None })
    }
}

pub(super) struct RegisteredTask {
    pub(super) schemas: Schemas,
    pub(super) definition: Arc<dyn AnyTask>,
}

#[derive(Default)]
pub(super) struct Registry {
    pub(super) workflows: BTreeMap<String, WorkflowKind>,
    pub(super) tasks: BTreeMap<String, RegisteredTask>,
    /// The first error in the registrations.
    refused: Option<String>,
}

impl Registry {
    pub(super) fn add_workflow(
        &mut self,
        kind: &str,
        version: Option<&str>,
        schemas: Schemas,
        definition: Arc<dyn AnyWorkflow>,
    ) {
        let known = self.workflows.entry(kind.to_owned());
        let known =
            known.or_insert_with(|| WorkflowKind { versions: Vec::new(), needs_log: AtomicBool::default() });
        if known.versions.iter().any(|known| known.name.as_deref() == version) {
            let what = match version {
                Some(version) => format!("version {version:?} of the workflow {kind:?} is registered twice"),
                None => format!("the workflow {kind:?} is registered twice without a version"),
            };
            self.refuse(format!("{what}: remove one of them, or give it another version or kind"));
            return;
        }
        known.versions.push(Version { name: version.map(str::to_owned), schemas, definition });
    }

    pub(super) fn add_task(&mut self, kind: &str, schemas: Schemas, definition: Arc<dyn AnyTask>) {
        let earlier = self.tasks.insert(kind.to_owned(), RegisteredTask { schemas, definition });
        if earlier.is_some() {
            let message =
                format!("the task {kind:?} is registered twice: remove one of them, or give it another kind");
            self.refuse(message);
        }
    }

    /// Makes `build` fail with this message. An earlier message is kept.
    pub(super) fn refuse(&mut self, message: String) {
        self.refused.get_or_insert(message);
    }

    pub(super) fn check(&self) -> Result<()> {
        if let Some(message) = &self.refused {
            return Err(Error::failed(message));
        }
        if self.workflows.is_empty() && self.tasks.is_empty() {
            return Err(Error::failed("the worker has no workflows and no tasks: register at least one"));
        }
        Ok(())
    }

    /// The definition for an execution of this kind and version. `version` is `None` if the execution names no
    /// version.
    pub(super) fn workflow(&self, kind: &str, version: Option<&str>) -> Option<Arc<dyn AnyWorkflow>> {
        Some(self.workflows.get(kind)?.find(version)?.definition.clone())
    }
}
