//! The only doors to the outside: clock, tasks, heavy computation, datagram sockets, byte streams, disk, entropy.
//!
//! Every node runs on a [`Host`]. Production's host ([`Host::real`]) opens the doors to the operating system; the
//! simulator builds one from its own parts ([`Host::from_parts`]), so that the same node code runs on either. No
//! other package of edge or central may name the operating system's clock, sockets, files or entropy (the lints in
//! `.clippy.toml` hold that).

mod disk;
mod host;
mod lock;
mod net;
mod parts;
mod quic;
mod real;
mod stop;
mod work;

pub use disk::{Disk, DiskLock, File, Open, write_atomic};
pub use host::{Bound, Gone, Host, Late, Task, current};
pub use lock::Lock;
pub use net::{ByteStream, Listener, Net, Stream};
pub use parts::{Boxed, Clock, Entropy, Parts, Tasks};
pub use quic::QuicRuntime;
pub use stop::{Stop, Stopper};
pub use work::Timed;
