//! Waiting for what a mesh of real processes comes to: looked for again and again, within a bound that only a fault exceeds.

use std::time::Duration;

use seam::Host;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Longer than an election, a drain or a start takes.
const LONGEST: Duration = Duration::from_secs(30);

/// Looks until there is something to see, and gives it; panics with `what` when there never is.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let host = Host::real();
    let begun = host.now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(host.now().since(begun) < LONGEST, "never came: {what}");
        host.sleep(LOOK).await;
    }
}
