//! The newest session level that a node speaks. It is the build's, but in tests of upgrades, where one build plays two.

use seam::Host;

/// The newest level that the process of `host` speaks.
#[cfg(not(feature = "next-level"))]
#[must_use]
pub const fn level(_host: &Host) -> u16 {
    wire::LEVEL
}

/// The newest level that the process of `host` speaks.
#[cfg(feature = "next-level")]
#[must_use]
pub const fn level(host: &Host) -> u16 {
    wire::LEVEL + host.levels_ahead()
}
