//! A process's own entropy, apart from what libraries draw through the C library.

use seam::{Entropy, Lock};
use simulation_hooks::Random;

/// One stream, drawn in the order of the process's own calls.
#[derive(Debug)]
pub(super) struct ProcessEntropy(pub(super) Lock<Random>);

impl Entropy for ProcessEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().fill(bytes);
    }
}
