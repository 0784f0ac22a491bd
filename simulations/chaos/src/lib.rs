//! Real processes in a hostile network: each host is a network namespace, and every packet between two of them passes
//! through one thread that delays, loses, doubles or holds it.
//!
//! A host's only way out is a TUN device whose other end the [`Emulator`] holds, so that UDP and TCP, as the kernel
//! speaks them, meet the same links. Needs `CAP_NET_ADMIN` and `/dev/net/tun`; nothing outside the namespaces that it
//! made is touched. Who has no such right puts hosts on the [`Loopback`] device, with fewer faults. The emulator reports how late it was: a run on a machine too busy for it says nothing.

mod emulator;
mod lateness;
mod loopback;
mod medium;
mod mounts;
mod namespace;
mod process;
mod streams;
mod thread;
mod tun;

pub use emulator::{Emulator, Fate, Fates};
pub use lateness::Lateness;
pub use loopback::{Loopback, Ports};
pub use mounts::{SmallDisk, isolate};
pub use namespace::{Host, Namespace, forget_dead};
pub use process::Process;
pub use thread::{Actor, Ending};

/// The network of real processes cannot be set up or run.
#[derive(Debug, thiserror::Error)]
pub enum ChaosError {
    /// The kernel refused.
    #[error("{doing}")]
    Kernel {
        /// What was asked of it.
        doing: String,
        /// Why it refused.
        source: std::io::Error,
    },
    /// `ip` failed.
    #[error("`ip {arguments}` failed: {said}")]
    Ip {
        /// What was asked of it.
        arguments: String,
        /// What it said.
        said: String,
    },
    /// The emulator's thread ended.
    #[error("the link emulator's thread ended early")]
    Ended,
}

impl ChaosError {
    pub(crate) fn kernel(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Kernel { doing, source }
    }
}
