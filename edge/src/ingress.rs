//! Where callers come in: connections over TCP and QUIC, HTTP/1.1, HTTP/2 and HTTP/3, one request at a time.
//!
//! Decided here: what a request is (a call of which operation, or a page), what a node takes of slow, large and many
//! callers, and how a request's body is read. Never here: who the caller is or what becomes of the call. Every request
//! of every HTTP version goes through one [`Handler`].

mod answer;
mod arrival;
mod body;
mod certificate;
mod flows;
mod http;
mod http3;
mod listener;
mod paths;
pub(crate) mod quic;
mod wire;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use ::http::{HeaderValue, Request, Response};
use prometheus_client::metrics::gauge::Gauge;

pub(crate) use answer::{Answer, End, Outlet};
pub(crate) use arrival::{Arrival, BadHeader, Behalf, PRIORITY, USER, asks_debug, behalf};
pub(crate) use body::{Allowed, BodyError, Upload};
pub use certificate::TlsError;
pub(crate) use flows::Flows;
pub use listener::BindError;
pub(crate) use listener::Listeners;
pub(crate) use paths::{Asks, NoCall, Verb, Wanted, bounded, form, query, wanted};

/// What becomes of a request. One boxed future a request: its memory is given back when the head is there, not when
/// the connection ends.
pub(crate) type Handler = Arc<dyn Fn(Request<Upload>, &Arc<Via>) -> Handling + Send + Sync>;

/// A request being handled.
pub(crate) type Handling = Pin<Box<dyn Future<Output = Response<Answer>> + Send>>;

/// How a request came in.
#[derive(Debug)]
pub(crate) struct Via {
    /// HTTP version, as records and metrics name it.
    pub(crate) http: &'static str,
    /// Where HTTP/3 is served, for callers that came by another version.
    pub(crate) alt_svc: Option<HeaderValue>,
    /// Whether metrics are served here.
    pub(crate) metrics: bool,
    /// Connections of this version.
    pub(crate) connections: Gauge,
}
