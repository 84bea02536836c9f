//! Time, ids and numbers that are the same on every replay, and the workflow's state.

use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::WorkflowContext;
use crate::error::Result;
use crate::replay::Command;
use crate::size;

impl WorkflowContext {
    /// Time of the event that the workflow is at.
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

    /// An id that is the same on every replay.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// assert_ne!(context.random_uuid(), context.random_uuid());
    /// # Ok(()) });
    /// ```
    pub fn random_uuid(&self) -> Uuid {
        self.core.lock().random_uuid()
    }

    /// A number in `0.0..1.0` that is the same on every replay.
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

    /// A value that was set before.
    ///
    /// # Errors
    /// When it is not of this type.
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

    /// Keeps a value; it can also be seen from outside.
    ///
    /// # Errors
    /// When it is no JSON, or larger than 1 MiB: then nothing is kept, and the code is `FLV0020`.
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

    /// Forgets a value.
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

    /// Forgets all values.
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

    /// In order.
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
