//! The mesh between nodes: QUIC with mutual TLS from the mesh's own authority.
//!
//! Decided here: who a peer is ([`Identity`], from its certificate), whether it is let in ([`Expect`]), how streams and
//! frames are bounded, when a link is dead and when it is tried again ([`Links`]). What the messages mean is `wire`'s
//! and their readers' business. Nothing here retries a call.
//!
//! Connections for consensus and for calls are apart ([`Purpose`]), so that bulk never delays a heartbeat.

mod assembler;
mod connection;
mod credentials;
mod endpoint;
mod error;
mod expect;
mod identity;
mod level;
mod links;
pub mod pki;
mod pulse;
mod stream;
pub mod tls;
mod transport;

pub use connection::Connection;
pub use credentials::{AUTHORITIES, CERTIFICATE, Credentials, CredentialsError, KEY};
pub use endpoint::Endpoint;
pub use error::MeshError;
pub use expect::{Check, Expect, Refusal};
pub use identity::{Identity, IdentityError};
pub use level::level;
pub use links::Links;
pub use stream::{Frame, Receiver, Sender};
pub use transport::Purpose;

#[cfg(test)]
mod tests;
