//! What end-to-end tests share: starting a mesh of real processes and asking it as callers do.

#![expect(clippy::unwrap_used, reason = "a failure here is the failure of the test that called")]
#![expect(clippy::panic, reason = "a failure here is the failure of the test that called")]
#![expect(clippy::unwrap_in_result, reason = "a failure here is the failure of the test that called")]
#![expect(clippy::indexing_slicing, reason = "a failure here is the failure of the test that called")]
#![expect(
    clippy::disallowed_methods,
    reason = "callers and harness stand outside every node, on the operating system"
)]
#![expect(clippy::missing_panics_doc, reason = "everything here panics when the mesh misbehaves")]

pub mod client;
pub mod configure;
pub mod faulty;
pub mod foreign;
pub mod http1;
pub mod load;
pub mod mesh;
pub mod recording;
pub mod until;
