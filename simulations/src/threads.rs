//! Threads of the simulator's own, outside of every simulated world: each plays one run after another.

#![expect(clippy::disallowed_methods, reason = "what plays runs is in none of them")]

/// Does `work` on so many threads at once, one at the least, and waits for all of them.
pub(crate) fn at_once(threads: usize, work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _thread in 0..threads.max(1) {
            scope.spawn(&work);
        }
    });
}
