//! What talks to a model. [`Egress::serve`] is the one function that local dispatch, a peer edge and central's relay all
//! call; [`Egress::forward`] and [`answer()`] are the two ends of a call that crosses the mesh.
//!
//! Decided here: which instance of a model serves (least outstanding, `upstream`'s rules), whether what it answered is
//! an answer, whether another instance of the same set is tried (at most [`Options::attempts`] in all, each instance
//! once, never after the first event or byte of an answer was handed on), how connections are kept and replaced, and
//! every time limit of an attempt. A provider's keys are shared by its models; a call that a key was refused or limited for is
//! made with another key at once, each key once, which is no other attempt at the instance. Never here: which region or provider (routing), money, the caller's connection.
//!
//! A call drives its own connection: no task stands between the upstream's socket and the caller's. Dropping an
//! exchange at any moment, or its future, closes the connection and thereby cancels the upstream's work; [`Left`] says how
//! far it came.

mod account;
mod answer;
mod api;
mod body;
mod call;
mod connection;
mod events;
mod exchange;
mod fetch;
mod forward;
pub mod headers;
mod instance;
mod left;
mod line;
mod origin;
mod places;
mod pool;
mod request;
mod room;
mod serve;
mod source;
mod spans;
mod tls;
mod words;

pub use account::{Key, KeyModelState, KeyState};
pub use answer::{answer, decline};
pub use api::target_of;
pub use body::ReplyBody;
pub use exchange::{Exchange, Failed, Reply};
pub use fetch::{Unfetched, fetch};
pub use instance::InstanceStatus;
pub use left::{Asked, Left};
pub use line::{Line, NotYet, Waited};
pub use origin::{BadOrigin, Credential, Origin};
pub use pool::{Egress, Options, Upstream};
pub use room::{Full, Gathering, Room};
pub use tls::{BadAuthority, Tls};
pub use upstream::{Bounds, Crowded, KeyTerms, Lack, Terms, Waiter};

#[cfg(test)]
mod tests;
