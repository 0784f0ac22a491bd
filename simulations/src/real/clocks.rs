//! Nodes' wall clocks, which step while the machine's own goes on: nodes are started with a library that tells them so.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use base::{Mono, WallMs};
use simulation_hooks::{STEPS, Steps};

use crate::files;

/// The library, as it is built beside this program.
const LIBRARY: &str = "libsimulation_hooks.so";

/// The clock of each node, by name.
#[derive(Debug)]
pub(super) struct Clocks {
    library: PathBuf,
    clocks: BTreeMap<String, Stepped>,
}

#[derive(Debug)]
struct Stepped {
    file: PathBuf,
    steps: Steps,
    /// When it stepped, and by how many milliseconds it was ahead from then on.
    stepped: Vec<(Mono, i64)>,
}

/// Where the library is; `None` where this program was moved away from it.
pub(super) fn library() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let built = program.parent()?;
    [built.to_owned(), built.join("deps")]
        .iter()
        .find_map(|beside| files::list(beside, "so").ok()?.into_iter().find(|file| file.ends_with(LIBRARY)))
}

impl Clocks {
    /// A clock for each of the `nodes`, in files of the directory `root`.
    pub(super) fn make<'a>(
        library: PathBuf,
        root: &Path,
        nodes: impl Iterator<Item = &'a String>,
    ) -> io::Result<Self> {
        let stepped = |name: &String| {
            let file = root.join(format!("{name}.clock"));
            let steps = Steps::create(&file)?;
            Ok((name.clone(), Stepped { file, steps, stepped: Vec::new() }))
        };
        Ok(Self { library, clocks: nodes.map(stepped).collect::<io::Result<_>>()? })
    }

    /// What a process of this node must find in its environment.
    pub(super) fn environment(&self, name: &str) -> Vec<(&'static str, OsString)> {
        let file = self.clocks.get(name).map(|clock| &clock.file);
        let named = |file: &PathBuf| {
            vec![("LD_PRELOAD", self.library.clone().into()), (STEPS, file.clone().into_os_string())]
        };
        file.map(named).unwrap_or_default()
    }

    pub(super) fn step(&mut self, name: &str, by_ms: i64, now: Mono) {
        if let Some(clock) = self.clocks.get_mut(name) {
            clock.steps.step(by_ms);
            clock.stepped.push((now, clock.steps.ahead_ms()));
        }
    }

    /// When the node's clock stepped, and how far it was ahead from then on.
    pub(super) fn stepped(&self, name: &str) -> &[(Mono, i64)] {
        self.clocks.get(name).map_or(&[], |clock| &clock.stepped)
    }
}

/// Takes steps out of the times of a node's lines, which come in the order in which they were written.
#[derive(Debug)]
pub(super) struct Unstepped<'a> {
    began: WallMs,
    ahead: i64,
    /// The time of the last line.
    last: Mono,
    steps: &'a [(Mono, i64)],
}

impl<'a> Unstepped<'a> {
    /// For lines of one node, whose wall clock showed `began` when time began.
    pub(super) fn new(began: WallMs, steps: &'a [(Mono, i64)]) -> Self {
        Self { began, ahead: 0, last: Mono::ZERO, steps }
    }

    /// When a line was written that says `told`, in milliseconds of the node's wall clock since the run began. A step is
    /// noticed once a time lies after the moment of the step, or before the line that came before it.
    pub(super) fn at(&mut self, told: i64) -> Mono {
        loop {
            let at = Mono::ZERO + millis(told.saturating_sub(self.ahead));
            match self.steps.split_first() {
                Some(((moment, ahead), rest)) if at > *moment || at < self.last => {
                    (self.ahead, self.steps) = (*ahead, rest);
                }
                _ => {
                    self.last = self.last.max(at);
                    return at;
                }
            }
        }
    }

    /// When the run began, by the wall clock.
    pub(super) fn began(&self) -> WallMs {
        self.began
    }
}

fn millis(ms: i64) -> std::time::Duration {
    std::time::Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Mono {
        Mono::ZERO + std::time::Duration::from_millis(ms)
    }

    #[test]
    fn lines_are_dated_as_if_the_clock_had_not_stepped() {
        for by in [30_000, -30_000] {
            let steps = [(at(5_000), by), (at(9_000), 0)];
            let mut unstepped = Unstepped::new(WallMs::from_millis(0), &steps);
            let told = [1_000, 4_900, 5_100 + by, 8_900 + by, 9_200, 20_000];
            let dated: Vec<_> = told.iter().map(|told| unstepped.at(*told)).collect();
            assert_eq!(dated, [1_000, 4_900, 5_100, 8_900, 9_200, 20_000].map(at), "{by}");
        }
    }
}
