//! Those around the mesh: callers, operators, model servers, and what sends callers to edges that answer. Each sees
//! the mesh from outside only, and writes what it saw to the history.

mod caller;
mod dns;
mod members;
mod model;
mod observer;
mod operator;
mod rivals;
mod steward;

pub use caller::{Caller, CallerSetup};
pub use dns::Dns;
pub use members::Centrals;
pub use model::ModelServer;
pub use observer::{Observer, observation};
pub use operator::Operations;
pub use rivals::Rivals;
pub use steward::{BOUND, Steward};
