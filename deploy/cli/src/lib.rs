//! The parts of the executable `portolan`.

pub mod demo;
