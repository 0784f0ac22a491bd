//! A mutex without poisoning: a panic under the lock has already been reported where it happened.

#![expect(clippy::disallowed_types, reason = "the one place that wraps the standard mutex")]

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Mutual exclusion for short critical sections. Never held across an await.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// A lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the lock, blocking the thread.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
