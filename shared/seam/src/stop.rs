//! Asking tasks to stop. A node first drains (takes nothing new, ends what it has), then stops.

use tokio::sync::watch;

/// Asks all holders of its [`Stop`] to stop. Dropping it asks too.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Tells whether to stop. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

impl Stopper {
    /// A stopper and what it controls.
    #[must_use]
    pub fn new() -> (Self, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Stop(receiver))
    }

    /// Asks to stop.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Another handle on what this controls.
    #[must_use]
    pub fn watch(&self) -> Stop {
        Stop(self.0.subscribe())
    }
}

impl Stop {
    /// Whether a stop was asked for.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Waits until a stop is asked for. Cancel safe.
    pub async fn wanted(&self) {
        let mut receiver = self.0.clone();
        // An error means that the stopper is gone, which asks to stop as well.
        drop(receiver.wait_for(|stop| *stop).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn dropping_the_stopper_asks_to_stop() {
        let (stopper, stop) = Stopper::new();
        assert!(!stop.is_wanted());
        drop(stopper);
        stop.wanted().await;
        assert!(stop.is_wanted());
    }
}
