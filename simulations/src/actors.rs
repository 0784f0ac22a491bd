//! Those around the mesh: callers, operators, model servers, and what sends callers to edges that answer. Each sees
//! the mesh from outside only, and writes what it saw to the history.

mod caller;
mod dns;
mod model;
mod observer;
mod operator;

pub use caller::{Caller, CallerSetup};
pub use dns::Dns;
pub use model::ModelServer;
pub use observer::{Observer, observation};
pub use operator::Operations;
