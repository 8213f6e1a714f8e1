//! Values that layers above the engine attach to an open database: one of each type, shared by all of its handles.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use crate::sync::Mutex;

/// The values, by their types.
#[derive(Default)]
pub(crate) struct Attachments(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Attachments {
    /// The value of this type; `make` makes it the first time.
    pub(crate) fn get<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut values = self.0.lock();
        let value = values.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(make()));
        Arc::clone(value).downcast().expect("a value lies under its own type")
    }
}
