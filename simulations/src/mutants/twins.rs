//! Two processes with one identity: the older must end when the newer has registered (design.md §1).

use std::time::Duration;

use base::mutant::Mutant;

use crate::deployment::{DeployError, Deployment, Layout};
use crate::engine::{Options, World, run};
use crate::invariants::Violation;

/// The older process hears of the newer one through central.
const WITHIN: Duration = Duration::from_secs(5);

/// Starts an edge a second time, and says what is wrong when the first goes on.
pub(super) fn play(seed: u64, mutant: Option<Mutant>) -> Vec<Violation> {
    #[cfg(not(feature = "mutants"))]
    let _cannot_be_planted = mutant;
    let act = move |world: World| async move {
        #[cfg(feature = "mutants")]
        let _planted = mutant.map(base::mutant::plant);
        ends(&world).await
    };
    let what = match run(&Options::seed(seed), act) {
        Ok(report) => match report.value {
            Ok(true) => return Vec::new(),
            Ok(false) => "an edge goes on though a newer process has its identity".to_owned(),
            Err(error) => error.to_string(),
        },
        Err(failure) => failure.to_string(),
    };
    vec![Violation { invariant: "superseded", at_ms: None, what }]
}

async fn ends(world: &World) -> Result<bool, DeployError> {
    let layout = Layout {
        centrals: vec!["eu", "us", "ap"],
        edges: vec!["eu"],
        twins: vec!["eu"],
        round_trip: Duration::from_millis(20),
        ..Layout::default()
    };
    let mesh = Deployment::new(world, &layout).await?;
    world.sleep(WITHIN).await;
    mesh.start("twin-eu");
    world.sleep(WITHIN).await;
    Ok(mesh.ended().iter().any(|ended| ended.starts_with("edge-eu: ")))
}
