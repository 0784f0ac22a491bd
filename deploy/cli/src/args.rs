//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use base::{Name, RegionName, Role};
use clap::{Args, Parser, Subcommand};

/// A multi-region AI gateway.
#[derive(Debug, Parser)]
#[command(name = "portolan", version, about, propagate_version = true, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 something failed on this machine; 2 wrong usage; 3 files or configuration are \
                          invalid, nothing was changed; 4 no central node could be reached; 5 the mesh refused; 6 a check found \
                          something wrong.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make and renew the certificates of the mesh
    Pki {
        #[command(subcommand)]
        command: Pki,
    },
    /// Run a demo model server that speaks OpenAI
    Demo(Demo),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Pki {
    /// Make the authorities of a new mesh
    Init {
        /// Where they are kept. Keep this directory offline: whoever has it can join the mesh
        #[arg(long, default_value = "pki")]
        dir: PathBuf,
        /// The mesh's name
        #[arg(long)]
        mesh: Name,
        /// How long the authorities are valid
        #[arg(long, default_value_t = 3650)]
        days: u32,
    },
    /// Make a node's credentials, or an operator's
    Issue {
        /// Where the authorities are kept
        #[arg(long, default_value = "pki")]
        dir: PathBuf,
        /// What it may do: central, edge or operator
        #[arg(long)]
        role: Role,
        /// Where it is
        #[arg(long)]
        region: RegionName,
        /// Its name, unique in the mesh
        #[arg(long)]
        node: Name,
        /// Directory for node.pem, node.key and ca.pem
        #[arg(long)]
        out: PathBuf,
        /// How long the certificate is valid
        #[arg(long, default_value_t = 90)]
        days: u32,
    },
    /// Make the certificate of a listener that callers reach
    Listener {
        /// Where the authorities are kept
        #[arg(long, default_value = "pki")]
        dir: PathBuf,
        /// DNS name or IP address under which callers reach it; repeat for more
        #[arg(long = "name", required = true)]
        names: Vec<String>,
        /// Directory for listener.pem and listener.key
        #[arg(long)]
        out: PathBuf,
        /// How long the certificate is valid
        #[arg(long, default_value_t = 90)]
        days: u32,
    },
    /// Renew credentials in place, with a new key; a running node takes them up within seconds
    Rotate {
        /// Where the authorities are kept
        #[arg(long, default_value = "pki")]
        dir: PathBuf,
        /// Directories with node.pem, node.key and ca.pem
        #[arg(long, num_args = 1.., required_unless_present = "authority")]
        credentials: Vec<PathBuf>,
        /// Only bring ca.pem up to date: the first of two rounds after a change of authority
        #[arg(long)]
        trust_only: bool,
        /// Make a new authority; the old one stays trusted beside it
        #[arg(long, conflicts_with_all = ["credentials", "trust_only"])]
        authority: bool,
        /// How long the new certificates are valid
        #[arg(long, default_value_t = 90)]
        days: u32,
    },
    /// Show what certificates say
    Show {
        /// Certificates (PEM), or directories of them
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Where it listens
    #[arg(long, default_value = "127.0.0.1:7499")]
    pub(crate) listen: SocketAddr,
    /// The name its answers say
    #[arg(long, default_value = "demo")]
    pub(crate) name: String,
    /// The region its answers say
    #[arg(long, default_value = "here")]
    pub(crate) region: String,
    /// The bearer key it demands; without, it lets everybody in
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Milliseconds until the first token
    #[arg(long, default_value_t = 80)]
    pub(crate) first_token_ms: u64,
    /// Tokens per second after the first; 0 sends them all at once
    #[arg(long, default_value_t = 60)]
    pub(crate) tokens_per_s: u32,
    /// Stop when standard input ends: whoever started it is gone
    #[arg(long, hide = true)]
    pub(crate) until_eof: bool,
}
