//! A whole edge over loopback, without central: real listeners, a model server that does as it is told, callers of
//! every HTTP version.

mod bad_input;
mod caller;
mod debugging;
mod framing;
mod holding;
mod instances;
mod leaving;
mod lifecycle;
mod limits;
mod northbound;
mod peering;
mod pressure;
mod prices;
mod refusals;
mod server;
mod serving;
mod spending;
mod usage;
mod world;
