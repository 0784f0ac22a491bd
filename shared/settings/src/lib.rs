//! Files that people write, as trees whose every value knows its place, and a reader that reports every fault at once.
//!
//! A fault reads `file:line:column: field: what is wrong and the mend`. Fields that nobody asked for are faults. Numbers
//! keep the digits that were written, so that money is never read through a float. Nothing here opens a file.

pub mod decimal;
mod fault;
mod fields;
mod place;
mod toml_file;
mod value;
mod yaml;

pub use fault::{Fault, list as list_faults};
pub use fields::{Fields, Node, Read, address, collector, dollars, flag, number, path, text, whole, word};
pub use place::{HostPort, host_port};
pub use toml_file::toml;
pub use value::{Broken, Key, Kind, Place, Value};
pub use yaml::yaml;
