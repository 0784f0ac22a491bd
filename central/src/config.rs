//! A central node's configuration file, `central.toml`, as usable values.
//!
//! The whole file is read before anything is reported, so that every mistake shows at once, each with its place and
//! mend; an unknown key is a mistake. Who the node is stands in its certificate. What the mesh serves is not here: it is
//! applied through the admin API and replicated.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use base::{Name, NodeId, RegionName, Role};
use egress::Origin;
use settings::{Fault, Fields, Node, Value, address, collector, list_faults, path, text, whole, word};
use wire::control::NodeAddr;

use crate::usage::{ClickHouse, Kept};

/// Longest round trip between members that is believed. Beyond it, elections would take minutes.
pub(crate) const LONGEST_RTT_MS: u32 = 2_000;

/// Round trip that a node assumes which was told none and has measured none: that of neighbouring continents.
const ASSUMED_RTT_MS: u32 = 100;

/// Longest time that a stopping node may wait for calls in progress: an hour.
const LONGEST_DRAIN_S: u32 = 3_600;

const DAY_S: u64 = 24 * 3_600;

/// Longest that usage can be kept: ten years.
const LONGEST_KEPT_DAYS: u32 = 3_660;

/// Everything a central node is told by its operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where the log and the snapshots are kept.
    pub data: PathBuf,
    /// This node's number in the group; given once, never reused.
    pub id: NodeId,
    /// This node's end of the mesh.
    pub mesh: Mesh,
    /// Where operators reach this node.
    pub admin: SocketAddr,
    /// Where scrapers reach `/metrics`, `/healthz` and `/readyz`, in cleartext; `None`: nowhere.
    pub metrics: Option<SocketAddr>,
    /// File of the keys that seal providers' credentials; `None`: this node neither seals nor opens any.
    pub seal_keys: Option<PathBuf>,
    /// PEM file of authorities to trust among providers, beside the public ones.
    pub upstream_authorities: Option<PathBuf>,
    /// Root of an OTLP/HTTP collector for the spans of relayed calls; `None`: not sent.
    pub traces: Option<String>,
    /// Members that form the group on its first start; empty on a node that is added later.
    pub members: Vec<Member>,
    /// The longest round trip between two members until this node has measured it; the group's timing follows from it.
    pub round_trip: Duration,
    /// How long relayed calls may take to end once the node was asked to stop.
    pub drain: Duration,
    /// How long usage is kept.
    pub keep: Kept,
    /// Where receipts go besides; `None`: nowhere.
    pub clickhouse: Option<ClickHouse>,
}

/// This node's end of the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh {
    /// Address to bind.
    pub listen: SocketAddr,
    /// Directory of `node.pem`, `node.key` and `ca.pem`.
    pub credentials: PathBuf,
}

/// A member of the group that forms first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub id: NodeId,
    /// Where it is.
    pub addr: NodeAddr,
}

/// Every mistake of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the configuration cannot be used:\n{}", list_faults(.0))]
pub struct ConfigError(pub Vec<Fault>);

impl Config {
    /// Reads the text of a configuration file; `file` stands in front of its mistakes.
    ///
    /// # Errors
    /// [`ConfigError`] with every mistake.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        let value = settings::toml(text).map_err(|broken| {
            let fault = |one: settings::Broken| Fault {
                file: file.to_owned(),
                line: one.at.line,
                column: one.at.column,
                field: String::new(),
                what: one.what,
            };
            ConfigError(broken.into_iter().map(fault).collect())
        })?;
        let mut faults = Vec::new();
        let root = Node { file, path: String::new(), value: &value };
        let config = Fields::open(&root, &mut faults).and_then(|mut fields| {
            let config = config(&mut fields);
            fields.finish();
            config
        });
        match config {
            Some(config) if faults.is_empty() => Ok(config),
            Some(_) | None => Err(ConfigError(faults)),
        }
    }
}

fn config(fields: &mut Fields<'_, '_>) -> Option<Config> {
    let data = fields.required("data", path);
    let id = fields.required("id", whole);
    let mesh = section(fields, "mesh", |mesh| {
        let listen = mesh.required("listen", address);
        let credentials = mesh.required("credentials", path);
        Some(Mesh { listen: listen?, credentials: credentials? })
    });
    let admin = section(fields, "admin", |admin| admin.required("listen", address));
    let metrics = fields.mapping("metrics", |metrics| metrics.required("listen", address));
    let seal_keys = fields.optional("seal_keys", path);
    let upstream_authorities = fields.optional("upstream_authorities", path);
    let traces = fields.mapping("traces", |traces| traces.required("endpoint", collector));
    let members = fields.mappings("members", member);
    let round_trip_ms = fields.or("round_trip_ms", whole::<u32>, ASSUMED_RTT_MS);
    let drain_s = fields.or("drain_s", whole::<u32>, 30);
    let usage = fields.mapping("usage", usage);
    if let Some(members) = &members {
        distinct(fields, members);
    }
    between(fields, "round_trip_ms", round_trip_ms, 1, LONGEST_RTT_MS);
    between(fields, "drain_s", drain_s, 0, LONGEST_DRAIN_S);
    let (keep, clickhouse) = usage?.unwrap_or_default();
    Some(Config {
        data: data?,
        id: NodeId(id?),
        mesh: mesh?,
        admin: admin?,
        metrics: metrics?,
        seal_keys: seal_keys?,
        upstream_authorities: upstream_authorities?,
        traces: traces?,
        members: members?,
        round_trip: Duration::from_millis(round_trip_ms?.into()),
        drain: Duration::from_secs(drain_s?.into()),
        keep,
        clickhouse,
    })
}

fn usage(fields: &mut Fields<'_, '_>) -> Option<(Kept, Option<ClickHouse>)> {
    let mut days = |name, default: Duration| {
        let default = u32::try_from(default.as_secs() / DAY_S).unwrap_or(u32::MAX);
        let days = fields.or(name, whole::<u32>, default);
        between(fields, name, days, 1, LONGEST_KEPT_DAYS);
        Some(Duration::from_secs(u64::from(days?) * DAY_S))
    };
    let kept = Kept::default();
    let receipts = days("keep_receipts_days", kept.receipts);
    let hours = days("keep_hours_days", kept.hours);
    let (receipts, hours) = (receipts?, hours?);
    if hours < receipts {
        fields.at_fault(
            "keep_hours_days",
            "must be at least keep_receipts_days: totals outlive their receipts",
        );
    }
    let clickhouse = fields.mapping("clickhouse", clickhouse)?;
    let untaken = clickhouse.as_ref().map(|sink| sink.keep_longer);
    Some((Kept { receipts, hours, untaken }, clickhouse))
}

fn clickhouse(fields: &mut Fields<'_, '_>) -> Option<ClickHouse> {
    let url = fields.required("url", |value| {
        let given = text(value)?;
        given.parse::<Origin>().map_err(|error| format!("{given:?} {error}"))
    });
    let database = fields.or("database", identifier, "default".to_owned());
    let table = fields.or("table", identifier, "portolan_receipts".to_owned());
    let user = fields.optional("user", text);
    let password_file = fields.optional("password_file", path);
    let authorities = fields.optional("authorities", path);
    let days = fields.or("keep_untaken_days", whole::<u32>, 7);
    between(fields, "keep_untaken_days", days, 0, LONGEST_KEPT_DAYS);
    let (url, password_file, user) = (url?, password_file?, user?);
    if password_file.is_some() && user.is_none() {
        fields.at_fault("password_file", "is the password of nobody; name the user, too");
    }
    let keep_longer = Duration::from_secs(u64::from(days?) * DAY_S);
    let (database, table, authorities) = (database?, table?, authorities?);
    Some(ClickHouse { url, database, table, user, password_file, authorities, keep_longer })
}

/// A database's or table's name.
fn identifier(value: &Value) -> Result<String, String> {
    let name = text(value)?;
    let plain = name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
    if plain && (1..=63).contains(&name.len()) {
        return Ok(name);
    }
    Err(format!("{name:?} is no name; use 1 to 63 letters, digits and '_'"))
}

/// A section that must be there.
fn section<T>(
    fields: &mut Fields<'_, '_>,
    name: &'static str,
    read: impl Fn(&mut Fields<'_, '_>) -> Option<T>,
) -> Option<T> {
    let section = fields.mapping(name, read)?;
    if section.is_none() {
        fields.missing(name, format!("is required: a section [{name}]"));
    }
    section
}

fn member(fields: &mut Fields<'_, '_>) -> Option<Member> {
    let id = fields.required("id", whole);
    let name: Option<Name> = fields.required("name", word);
    let region: Option<RegionName> = fields.required("region", word);
    let mesh = fields.required("mesh", address);
    let addr = NodeAddr { name: name?, role: Role::Central, region: region?, mesh: mesh? };
    Some(Member { id: NodeId(id?), addr })
}

fn distinct(fields: &mut Fields<'_, '_>, members: &[Member]) {
    let (mut ids, mut names, mut places) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (at, member) in members.iter().enumerate() {
        let fresh = [
            ("id", ids.insert(member.id)),
            ("name", names.insert(&member.addr.name)),
            ("mesh", places.insert(member.addr.mesh)),
        ];
        for (field, _taken) in fresh.into_iter().filter(|(_field, fresh)| !fresh) {
            fields.at_fault(&format!("members[{at}].{field}"), "another member has it already");
        }
    }
    if !members.is_empty() && members.len().is_multiple_of(2) {
        let what =
            format!("a group of {} bears no more failures than one fewer; use 1, 3 or 5", members.len());
        fields.at_fault("members", what);
    }
}

fn between(fields: &mut Fields<'_, '_>, name: &str, value: Option<u32>, least: u32, most: u32) {
    if value.is_some_and(|value| !(least..=most).contains(&value)) {
        fields.at_fault(name, format!("must lie between {least} and {most}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
data = "/var/lib/portolan"
id = 1
seal_keys = "/etc/portolan/seal.keys"
round_trip_ms = 80
[mesh]
listen = "127.0.0.1:7001"
credentials = "/etc/portolan/c1"
[admin]
listen = "127.0.0.1:7101"
[[members]]
id = 1
name = "c1"
region = "eu"
mesh = "127.0.0.1:7001"
"#;

    #[test]
    fn a_whole_file_reads() {
        let config = Config::parse("central.toml", GOOD).unwrap();
        assert_eq!((config.id, config.members.len()), (NodeId(1), 1));
        assert_eq!(config.round_trip, Duration::from_millis(80));
        assert_eq!((config.metrics, config.traces), (None, None));
        let traced = format!("{GOOD}[traces]\nendpoint = \"http://127.0.0.1:4318\"\n");
        let config = Config::parse("central.toml", &traced).unwrap();
        assert_eq!(config.traces.as_deref(), Some("http://127.0.0.1:4318"));
        let shorter = format!("{GOOD}[usage]\nkeep_receipts_days = 10\n");
        let config = Config::parse("central.toml", &shorter).unwrap();
        assert_eq!(config.clickhouse, None);
        assert_eq!(config.keep, Kept { receipts: Duration::from_secs(10 * DAY_S), ..Kept::default() });
    }

    #[test]
    fn a_server_that_takes_receipts_is_told_with_few_words() {
        let read = |lines: &str| Config::parse("f", &format!("{GOOD}[usage.clickhouse]\n{lines}\n"));
        let config = read("url = \"https://rows.example:8443\"").unwrap();
        let sink = config.clickhouse.unwrap();
        assert_eq!((sink.database.as_str(), sink.table.as_str()), ("default", "portolan_receipts"));
        assert_eq!(config.keep.untaken, Some(Duration::from_secs(7 * DAY_S)));
        let wrong = "url = \"rows:8123\"\ntable = \"a`b\"\npassword_file = \"/p\"\nkeep_untaken_days = 9999";
        let ConfigError(faults) = read(wrong).unwrap_err();
        let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
        for expected in [
            "usage.clickhouse.url: \"rows:8123\" is not the URL",
            "usage.clickhouse.table: \"a`b\" is no name",
            "keep_untaken_days: must lie between 0",
        ] {
            assert!(told.iter().any(|fault| fault.contains(expected)), "{expected}\n{told:#?}");
        }
        let ConfigError(faults) = read("url = \"http://rows\"\npassword_file = \"/p\"").unwrap_err();
        assert!(faults[0].to_string().contains("the password of nobody"), "{faults:?}");
    }

    #[test]
    fn every_mistake_shows_at_once_with_its_place() {
        let text = GOOD
            .replace("id = 1\nseal", "id = \"one\"\nseal")
            .replace("listen = \"127.0.0.1:7001\"", "listne = \"127.0.0.1:7001\"")
            .replace("round_trip_ms = 80", "round_trip_ms = 8000")
            .replace("[admin]\nlisten = \"127.0.0.1:7101\"", "[admin]\nlisten = \"localhost\"")
            + "[[members]]\nid = 1\nname = \"c2\"\nregion = \"eu\"\nmesh = \"127.0.0.1:7001\"\n\
               [traces]\nendpoint = \"https://127.0.0.1:4318\"\n[usage]\nkeep_receipts_days = 500\n";
        let ConfigError(faults) = Config::parse("central.toml", &text).unwrap_err();
        let got: Vec<_> = faults.iter().map(ToString::to_string).collect();
        for expected in [
            "central.toml:3:6: id: must be a whole number",
            "central.toml:6:1: mesh.listen: is required",
            "central.toml:7:1: mesh.listne: no such field; did you mean \"listen\"?",
            "central.toml:10:10: admin.listen: \"localhost\" is not an address and a port",
            "central.toml:17:6: members[1].id: another member has it already",
            "central.toml:20:8: members[1].mesh: another member has it already",
            "members: a group of 2 bears no more failures",
            "central.toml:5:17: round_trip_ms: must lie between 1 and 2000",
            "central.toml:22:12: traces.endpoint: is no collector's address; give the root of its OTLP/HTTP endpoint",
        ] {
            assert!(got.iter().any(|fault| fault.contains(expected)), "{expected}\n{got:#?}");
        }
        assert!(
            got.iter().any(|fault| fault.contains("usage.keep_hours_days: must be at least")),
            "{got:#?}"
        );
        assert_eq!(got.len(), 10, "{got:#?}");
    }
}
