//! A mesh whose nodes are upgraded one after another to the next level of messages, which only tests have, and one of
//! which goes back: nothing is violated, nobody speaks the next level before it is raised, and edges do afterwards.

#![cfg(all(test, feature = "next-level"))]

use std::path::Path;
use std::sync::Arc;

use base::Mono;
use simulations::play::{How, play};
use simulations::scenario::Scenario;
use simulations::schedule::Schedule;

#[test]
fn an_upgraded_mesh_speaks_the_next_level_once_it_is_raised_and_with_those_alone_who_know_it() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/rolling-upgrade.toml");
    let scenario = Arc::new(Scenario::load(&file).unwrap());
    let schedule = Arc::new(Schedule::draw(&scenario, 1));
    let outcome = play(&scenario, &schedule, &How::default());
    assert_eq!(outcome.violations, []);

    let done = &outcome.evidence.history.operated;
    let raised: Mono = done.iter().find(|done| done.what == "raise_level").unwrap().at;
    let greeted =
        outcome.evidence.log.iter().filter(|line| line.text.starts_with("greeted at the next level"));
    let greeted: Vec<_> = greeted.map(|line| (line.at, line.machine.as_str())).collect();
    assert!(greeted.iter().all(|(at, _)| *at >= raised), "{greeted:?}");
    for edge in ["edge-eu", "edge-eu-2", "edge-us", "edge-us-2"] {
        assert!(greeted.iter().any(|(_, name)| *name == edge), "{edge}: {greeted:?}");
    }
}
