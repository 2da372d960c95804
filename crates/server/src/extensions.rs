//! A type map of values that applications and transports hand to handlers.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A set of values, at most one of each type.
///
/// ```
/// use mcp_flow_server::Extensions;
///
/// struct Database(&'static str);
///
/// let mut extensions = Extensions::default();
/// extensions.insert(Database("main"));
/// assert_eq!(extensions.get::<Database>().unwrap().0, "main");
/// assert!(extensions.get::<u32>().is_none());
/// ```
#[derive(Clone, Default)]
pub struct Extensions {
    values: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl Extensions {
    /// Inserts a value, replacing one of the same type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.values.insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// The value of this type, if present.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.values.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Extensions({})", self.values.len())
    }
}
