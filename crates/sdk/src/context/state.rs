//! Deterministic time, ids and random numbers, and the state of the workflow.

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::WorkflowContext;
use crate::error::Result;
use crate::replay::Command;
use crate::size;

impl WorkflowContext {
    /// The time of the event that the workflow is processing, in Unix milliseconds. It is the same on every replay.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let before = context.current_time_millis();
    /// context.sleep(Duration::from_secs(60)).await?;
    /// assert!(context.current_time_millis() >= before + 60_000);
    /// # Ok(()) });
    /// ```
    pub fn current_time_millis(&self) -> i64 {
        self.core.lock().time_ms()
    }

    /// A UUID that is the same on every replay.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// assert_ne!(context.random_uuid(), context.random_uuid());
    /// # Ok(()) });
    /// ```
    pub fn random_uuid(&self) -> Uuid {
        self.core.lock().random_uuid()
    }

    /// A random number in `0.0..1.0` that is the same on every replay.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let lucky = context.random() < 0.5;
    /// # let _ = lucky;
    /// # Ok(()) });
    /// ```
    pub fn random(&self) -> f64 {
        self.core.lock().random()
    }

    /// Reads a value of the workflow's state. `None`: the key is not set.
    ///
    /// # Errors
    /// Fails if the value cannot be deserialized as `T`.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let step: Option<String> = context.get_state("step")?;
    /// # assert_eq!(step, None);
    /// # Ok(()) });
    /// ```
    pub fn get_state<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let value = self.core.lock().state.get(key).cloned();
        Ok(value.map(serde_json::from_value).transpose()?)
    }

    /// Sets a value of the workflow's state. Clients can read the state.
    ///
    /// # Errors
    /// Fails if the value cannot be serialized to JSON, or with the code `FLV0020` if it is larger than 1 MiB. The
    /// state does not change then.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// context.set_state("step", "paid")?;
    /// assert_eq!(context.get_state::<String>("step")?.as_deref(), Some("paid"));
    /// # Ok(()) });
    /// ```
    pub fn set_state<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<()> {
        let value = serde_json::to_value(value)?;
        size::check(|| format!("the state {key:?}"), &value)?;
        let mut core = self.core.lock();
        core.state.insert(key.to_owned(), value.clone());
        core.emit(Command::SetState { key: key.to_owned(), value });
        Ok(())
    }

    /// Removes a value from the state.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// context.set_state("step", "paid")?;
    /// context.clear_state("step");
    /// assert_eq!(context.get_state::<String>("step")?, None);
    /// # Ok(()) });
    /// ```
    pub fn clear_state(&self, key: &str) {
        let mut core = self.core.lock();
        core.state.remove(key);
        core.emit(Command::ClearState { key: key.to_owned() });
    }

    /// Removes all values from the state.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// context.set_state("a", &1)?;
    /// context.clear_all_state();
    /// assert!(context.state_keys().is_empty());
    /// # Ok(()) });
    /// ```
    pub fn clear_all_state(&self) {
        for key in self.state_keys() {
            self.clear_state(&key);
        }
    }

    /// The keys of the state, sorted.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// context.set_state("b", &2)?;
    /// context.set_state("a", &1)?;
    /// assert_eq!(context.state_keys(), ["a", "b"]);
    /// # Ok(()) });
    /// ```
    pub fn state_keys(&self) -> Vec<String> {
        self.core.lock().state.keys().cloned().collect()
    }
}
