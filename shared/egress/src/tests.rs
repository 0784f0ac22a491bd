//! Upstreams that behave and misbehave, over loopback.
