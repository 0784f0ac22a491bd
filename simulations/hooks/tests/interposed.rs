//! Shows that the standard library's entropy and clocks come from the hooks on a simulated thread, and only there.

#![expect(clippy::disallowed_methods, reason = "the standard clocks and threads are what is tested")]

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[test]
fn a_simulated_thread_sees_the_same_entropy_and_the_time_it_was_told() {
    let simulated = || {
        thread::spawn(|| {
            simulation_hooks::enter(7);
            simulation_hooks::set_time(5, 1_700_000_000_000_000_000);
            let hashed = RandomState::new().hash_one("key");
            (hashed, SystemTime::now(), simulation_hooks::draws())
        })
        .join()
        .unwrap()
    };
    let (first, now, draws) = simulated();
    let (second, ..) = simulated();
    assert_eq!(first, second);
    assert_eq!(now, UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    assert_eq!(draws.stray, 1);

    let real = || thread::spawn(|| RandomState::new().hash_one("key")).join().unwrap();
    assert_ne!(real(), real());
    assert_ne!(SystemTime::now(), now);
}
