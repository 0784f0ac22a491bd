//! The command line.

mod bills;

use std::net::SocketAddr;
use std::path::PathBuf;

use base::{ModelName, Name, RegionName, RequestId, Role};
use clap::{Args, Parser, Subcommand};

pub(crate) use bills::{Bills, BillsCheck};

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
    /// Run an edge: a region's data plane
    Edge(Node),
    /// Run a central node: configuration, budgets, provider credentials
    Central(Node),
    /// Run a whole mesh on this machine, to try it
    Up(Up),
    /// Run a demo model server that speaks OpenAI
    Demo(Demo),
    /// Show nodes, links, leader, epochs, models and budgets
    Status(Report),
    /// Show what files would change, and why they cannot be applied
    Plan {
        #[command(flatten)]
        files: Files,
        #[command(flatten)]
        reach: Reach,
    },
    /// Make the configuration say what files say, all or nothing, as a new epoch
    Apply {
        #[command(flatten)]
        files: Files,
        /// Why; kept with the epoch
        #[arg(long, default_value = "")]
        note: String,
        /// The epoch you planned on; at another one nothing is changed
        #[arg(long)]
        base: Option<u64>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Write the configuration in force, in the form that `apply` reads
    Get {
        /// One kind, such as models or budgets
        kind: Option<String>,
        /// One object's name
        #[arg(requires = "kind")]
        name: Option<String>,
        #[command(flatten)]
        report: Report,
    },
    /// List epochs, newest first
    Epochs(Report),
    /// Put an earlier epoch's content in force again, as a new epoch
    Rollback {
        /// The earlier epoch
        epoch: u64,
        #[command(flatten)]
        reach: Reach,
    },
    /// API keys of callers
    Keys {
        #[command(subcommand)]
        command: Keys,
    },
    /// The ledger of budgets
    Ledger {
        #[command(subcommand)]
        command: Ledger,
    },
    /// Show each budget: limit, spent, held at edges, remaining, debt, when its window ends
    Budgets(Budgets),
    /// Show which edge holds how much credit of which budget
    Leases(Leases),
    /// Show what was used: by tenant, application, key and model since the mesh began, or as asked for
    Usage(Usage),
    /// Show the receipts of a request, or those that fit
    Receipts(Receipts),
    /// Providers' bills
    Bills {
        #[command(subcommand)]
        command: Bills,
    },
    /// Tell why a call was refused: which edge, which limit or budget, how its budgets stood there and are now
    ExplainRefusal {
        /// The request, as its answer's x-request-id names it
        request: RequestId,
        #[command(flatten)]
        report: Report,
    },
    /// Raise the level of messages and log entries, after an upgrade of every central node
    Level {
        /// The new level; `portolan status` shows the level in use
        to: u16,
        #[command(flatten)]
        reach: Reach,
    },
    /// Central's members
    Members {
        #[command(subcommand)]
        command: Members,
    },
    /// Print what of a call reaches targets of another API than its own
    Dialects,
    /// Nodes' configuration files
    Config {
        #[command(subcommand)]
        command: Config,
    },
}

/// How to reach the admin API.
#[derive(Debug, Args)]
pub(crate) struct Reach {
    /// A mesh of `portolan up`: its directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["admin", "credentials"])]
    pub(crate) mesh: Option<PathBuf>,
    /// Admin addresses of central nodes, HOST:PORT, tried in order
    #[arg(long, value_delimiter = ',', requires = "credentials")]
    pub(crate) admin: Vec<String>,
    /// Directory of the operator's node.pem, node.key and ca.pem
    #[arg(long, value_name = "DIR", requires = "admin")]
    pub(crate) credentials: Option<PathBuf>,
}

/// Which budgets.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Budgets {
    #[command(subcommand)]
    pub(crate) command: Option<BudgetsCommand>,
    /// Only this one
    #[arg(long)]
    pub(crate) budget: Option<Name>,
    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BudgetsCommand {
    /// Charge or credit a budget beside its receipts, as after a look at a provider's bill
    Correct(Correct),
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).args(["charge", "credit"]))]
pub(crate) struct Correct {
    /// The budget
    pub(crate) budget: Name,
    /// So much more was spent: dollars, tokens or calls
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) charge: Option<String>,
    /// So much less was spent
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) credit: Option<String>,
    /// Of this end user, as the application names them, where each has an account
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// The window, by its start; the open one unless said
    #[arg(long, value_name = "START")]
    pub(crate) window: Option<String>,
    /// Why; kept with the decision
    #[arg(long)]
    pub(crate) reason: String,
    /// A number of yours for this decision: asked again under it, it is made once
    #[arg(long)]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LeasesCommand {
    /// Say that an edge never comes back: what it holds counts as spent, or is granted again with --refund
    Lost {
        /// The edge
        edge: Name,
        /// Grant again what it did not tell as spent; if it spent it all the same, that is a debt
        #[arg(long)]
        refund: bool,
        /// Only this life of it, as `portolan leases` shows
        #[arg(long)]
        life: Option<u32>,
        /// Why; kept with the decision
        #[arg(long)]
        reason: String,
        /// A number of yours for this decision: asked again under it, it is made once
        #[arg(long)]
        id: Option<String>,
        #[command(flatten)]
        reach: Reach,
    },
}

/// Which leases.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Leases {
    #[command(subcommand)]
    pub(crate) command: Option<LeasesCommand>,
    /// Only of this budget
    #[arg(long)]
    pub(crate) budget: Option<String>,
    /// Only of this edge
    #[arg(long)]
    pub(crate) edge: Option<String>,
    /// Those too that hold nothing and wait for nothing
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// How results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For spreadsheets; money in nano-dollars
    Csv,
    /// For programs; money in nano-dollars
    Json,
}

impl Chosen {
    /// As asked for by `--format` or `--json`.
    pub(crate) const fn format(&self) -> Format {
        if self.report.json { Format::Json } else { self.format }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Usage {
    /// By what to take the totals apart: tenant, app, key, scenario, model, provider, `provider_key`, region, `served_by`,
    /// operation, outcome, code, kind, hour, day
    #[arg(long, value_name = "DIMENSION", value_delimiter = ',')]
    pub(crate) by: Vec<String>,
    #[command(flatten)]
    pub(crate) chosen: Chosen,
}

#[derive(Debug, Args)]
pub(crate) struct Receipts {
    /// The request, as its answer's x-request-id names it
    pub(crate) request: Option<String>,
    #[command(flatten)]
    pub(crate) chosen: Chosen,
}

/// Which calls count, and how they are shown.
#[derive(Debug, Args)]
pub(crate) struct Chosen {
    /// Calls that ended since: an instant such as 2026-01-31T12:00:00Z, or how long ago (30m, 24h, 7d)
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Calls that ended before
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Calls of this tenant
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// Calls of this application
    #[arg(long)]
    pub(crate) app: Option<String>,
    /// Calls made with this key
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Calls that said they belong to this scenario
    #[arg(long)]
    pub(crate) scenario: Option<String>,
    /// Calls of this end user, by the name that the application gave; totals of one come from receipts
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// Calls that asked for this model
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Calls that this provider served
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// Calls that were made with this key of a provider
    #[arg(long)]
    pub(crate) provider_key: Option<String>,
    /// Calls that came in at this region
    #[arg(long)]
    pub(crate) region: Option<String>,
    /// Calls that ended so: complete, `caller_gone`, cut, failed, lost
    #[arg(long)]
    pub(crate) outcome: Option<String>,
    /// At most so many rows
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) limit: usize,
    /// Answer even where the asked node lacks receipts
    #[arg(long)]
    pub(crate) partial: bool,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// For programs
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

#[derive(Debug, Args)]
pub(crate) struct Files {
    /// A YAML file, or - for standard input; repeat for more
    #[arg(short = 'f', long = "file", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Remove what no file mentions
    #[arg(long)]
    pub(crate) prune: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Stop a key for good, at every edge, within a second
    Revoke {
        /// The key's name
        name: Name,
        #[command(flatten)]
        reach: Reach,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Ledger {
    /// Check that every budget's grants, returns and receipts balance
    Check(Report),
    /// List what operators decided about credit: who, when, why, how much
    Decisions(Report),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Members {
    /// List the members
    List(Report),
    /// Add a node: it learns first and votes once it has caught up
    Add {
        /// A number that no member ever had
        #[arg(long)]
        id: u64,
        /// The name in its certificate
        #[arg(long)]
        name: Name,
        /// The region in its certificate
        #[arg(long)]
        region: RegionName,
        /// Where its mesh endpoint listens
        #[arg(long)]
        mesh_address: SocketAddr,
        /// A member that leaves in the same step
        #[arg(long)]
        replaces: Option<u64>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Remove a node for good
    Remove {
        /// Its number
        id: u64,
        #[command(flatten)]
        reach: Reach,
    },
    /// Let another voter lead
    Transfer {
        /// Its number
        to: u64,
        #[command(flatten)]
        reach: Reach,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Read a node's configuration file and tell every mistake
    Check {
        /// Whose: edge or central
        role: Role,
        /// The file
        file: PathBuf,
    },
    /// Check a model's tokenizer.json, and print what models name it by
    Tokenizer {
        /// The file, called NAME.json
        file: PathBuf,
        /// A text file; its tokens are printed, too
        #[arg(long, value_name = "TEXT")]
        count: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Node {
    /// Its configuration file
    #[arg(long)]
    pub(crate) config: PathBuf,
    /// Which logs, such as info,mesh=debug
    #[arg(long, default_value = "info,openraft=error")]
    pub(crate) log: String,
    /// Logs as JSON, one object a line
    #[arg(long)]
    pub(crate) log_json: bool,
    /// Stop when standard input ends: whoever started it is gone
    #[arg(long, hide = true)]
    pub(crate) until_eof: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Ports are counted from here (7400, or where a mesh kept with --data was); 0 takes free ones
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// Keep the mesh in this directory and find it there again; without, it is forgotten at the end
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// A real server that speaks OpenAI, to be called through central
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,
    /// A file with the key that the server demands
    #[arg(long, value_name = "FILE", requires = "upstream")]
    pub(crate) upstream_key_file: Option<PathBuf>,
    /// A model of the server; repeat for more. Without, the server is asked
    #[arg(long = "upstream-model", value_name = "NAME", requires = "upstream")]
    pub(crate) upstream_models: Vec<ModelName>,
    /// A directory of tokenizer.json files, each NAME.json, that models may name
    #[arg(long, value_name = "DIR")]
    pub(crate) tokenizers: Option<PathBuf>,
    /// Send traces of all calls to an OpenTelemetry collector: the root of its OTLP/HTTP endpoint
    #[arg(long, value_name = "URL")]
    pub(crate) traces: Option<String>,
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
    /// Make a key that seals providers' credentials at central; the newest seals, all in the file open
    SealKey {
        /// The file, for `seal_keys` of every central node
        #[arg(long)]
        out: PathBuf,
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
