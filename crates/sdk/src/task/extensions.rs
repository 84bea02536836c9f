//! Values that a worker shares with all its tasks: at most one value of each type.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;

use crate::error::{Error, Result};

#[derive(Default)]
pub(crate) struct Extensions(HashMap<TypeId, Box<dyn Any + Send + Sync>>);

impl Extensions {
    /// `false`: a value of this type exists already and is kept.
    pub(crate) fn add<T: Send + Sync + 'static>(&mut self, value: T) -> bool {
        let is_new = !self.0.contains_key(&TypeId::of::<T>());
        if is_new {
            self.0.insert(TypeId::of::<T>(), Box::new(value));
        }
        is_new
    }

    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Result<&T> {
        let found = self.0.get(&TypeId::of::<T>()).and_then(|value| value.downcast_ref());
        found.ok_or_else(|| {
            let name = type_name::<T>();
            Error::failed(format!(
                "the worker has no extension of the type `{name}`: add one with `.extension(...)`"
            ))
        })
    }
}
