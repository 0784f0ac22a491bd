//! A whole mesh in a world: central nodes, edges, model servers and an operator, each on a machine of its own, running
//! the code that ships from configuration files as operators write them.

pub(crate) mod configs;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use central::admin::api::Changed;
use portolan::demo;
use seam::{Host, Lock, Stop, Stopper, write_atomic};
use thiserror::Error;

use crate::authority::{Authority, EnrolError};
use crate::engine::{Machine, World};
use crate::http::ExchangeError;
use crate::operator::Operator;

/// Where mesh endpoints listen.
pub(crate) const MESH: u16 = 7000;
/// Where the admin API listens.
pub(crate) const ADMIN: u16 = 7443;
/// Where callers reach edges.
pub const CALLS: u16 = 8080;
/// Where model servers listen.
pub const MODELS: u16 = 8000;
/// What the provider's model server demands of central.
pub const PROVIDER_KEY: &str = "sk-of-the-provider";
/// What it takes as well, for those who change it.
pub const NEXT_PROVIDER_KEY: &str = "sk-of-the-provider-renewed";

const CREDENTIALS: &str = configs::CREDENTIALS;
const DATA: &str = configs::DATA;
const SEAL_KEYS: &str = configs::SEAL_KEYS;

/// What stands where.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Regions with a central node, called `central-REGION`.
    pub centrals: Vec<&'static str>,
    /// Regions with an edge, called `edge-REGION`.
    pub edges: Vec<&'static str>,
    /// Regions with a model server, called `model-REGION`; one called `provider` demands [`PROVIDER_KEY`].
    pub models: Vec<&'static str>,
    /// The longest round trip between central nodes.
    pub round_trip: Duration,
    /// Regions with an edge for which a second machine stands ready, called `twin-REGION`, with the edge's identity.
    pub twins: Vec<&'static str>,
    /// Region with a central node that stands ready to take the place of the last of `centrals`; the number after its.
    pub spare: Option<&'static str>,
}

/// A node and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Its name, also its machine's.
    pub name: String,
    /// Its region.
    pub region: String,
}

/// What stands where, in any number; model servers are actors and no part of it.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Central nodes, numbered from 1.
    pub centrals: Vec<Spot>,
    /// Central nodes that stand ready, numbered on; they are not started.
    pub spares: Vec<Spot>,
    /// Edges.
    pub edges: Vec<Spot>,
    /// The longest round trip between central nodes.
    pub round_trip: Duration,
    /// Where edges keep a record of every call; nowhere when absent.
    pub records: Option<&'static str>,
}

/// A mesh cannot be set up.
#[derive(Debug, Error)]
pub enum DeployError {
    /// A node got no certificate.
    #[error("no certificate")]
    Enrol(#[from] EnrolError),
    /// A machine's disk.
    #[error("a machine's disk")]
    Disk(#[from] std::io::Error),
    /// The operator cannot work.
    #[error("the operator")]
    Operator(#[from] ExchangeError),
    /// The operator's process ended.
    #[error("the operator's process ended")]
    Gone,
}

/// A mesh. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Deployment {
    nodes: Arc<BTreeMap<String, Node>>,
    stoppers: Arc<Lock<BTreeMap<String, Stopper>>>,
    ended: Arc<Lock<Vec<String>>>,
    operator: Operator,
}

/// A node of the mesh and how it starts.
#[derive(Debug)]
struct Node {
    machine: Machine,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Central(String),
    Edge(String),
    Model(demo::Options),
}

impl Deployment {
    /// Adds the machines of `layout` to `world`, enrols them and starts every node.
    ///
    /// # Errors
    /// [`DeployError`] says what could not be set up.
    pub async fn new(world: &World, layout: &Layout) -> Result<Self, DeployError> {
        let authority = Authority::new(world).await?;
        let mut nodes = BTreeMap::new();
        let centrals: Vec<(&str, Machine)> = layout
            .centrals
            .iter()
            .map(|region| (*region, world.machine(&format!("central-{region}"))))
            .collect();
        let members = members(&centrals);
        for member in &members {
            let node = central(&authority, member, &members, layout.round_trip).await?;
            nodes.insert(node.machine.name().to_owned(), node);
        }
        for region in &layout.edges {
            let machine = world.machine(&format!("edge-{region}"));
            let node = edge(&authority, machine, (region, &format!("edge-{region}")), &centrals).await?;
            nodes.insert(node.machine.name().to_owned(), node);
        }
        for region in &layout.models {
            let machine = world.machine(&format!("model-{region}"));
            let kind = Kind::Model(model_options(region));
            nodes.insert(machine.name().to_owned(), Node { machine, kind });
        }
        let first: Vec<String> = nodes.keys().cloned().collect();
        for region in &layout.twins {
            let machine = world.machine(&format!("twin-{region}"));
            let node = edge(&authority, machine, (region, &format!("edge-{region}")), &centrals).await?;
            nodes.insert(node.machine.name().to_owned(), node);
        }
        if let Some(region) = layout.spare {
            let machine = world.machine(&format!("central-{region}"));
            let spare = (members.len() as u64 + 1, region, &machine);
            let staying = members.iter().take(members.len().saturating_sub(1)).copied();
            let members: Vec<Member<'_>> = staying.chain([spare]).collect();
            let node = central(&authority, &spare, &members, layout.round_trip).await?;
            nodes.insert(node.machine.name().to_owned(), node);
        }
        let operator = operator(world, &authority).await?;
        let deployment =
            Self { nodes: Arc::new(nodes), stoppers: Arc::default(), ended: Arc::default(), operator };
        for name in first {
            deployment.start(&name);
        }
        Ok(deployment)
    }

    /// Adds the machines of `plan` to `world`, enrols them and starts every node.
    ///
    /// # Errors
    /// [`DeployError`] says what could not be set up.
    pub async fn planned(world: &World, plan: &Plan) -> Result<Self, DeployError> {
        let authority = Authority::new(world).await?;
        let mut nodes = BTreeMap::new();
        let centrals: Vec<(&str, Machine)> =
            plan.centrals.iter().map(|spot| (spot.region.as_str(), world.machine(&spot.name))).collect();
        let members = members(&centrals);
        for member in &members {
            let node = central(&authority, member, &members, plan.round_trip).await?;
            nodes.insert(node.machine.name().to_owned(), node);
        }
        for spot in &plan.edges {
            let machine = world.machine(&spot.name);
            let mut node = edge(&authority, machine, (&spot.region, &spot.name), &centrals).await?;
            if let (Kind::Edge(text), Some(directory)) = (&mut node.kind, plan.records) {
                *text += &configs::records(directory);
            }
            nodes.insert(spot.name.clone(), node);
        }
        let first: Vec<String> = nodes.keys().cloned().collect();
        for (id, spot) in (members.len() as u64 + 1..).zip(&plan.spares) {
            let machine = world.machine(&spot.name);
            // Without a list of members it waits until somebody adds it.
            let node = central(&authority, &(id, &spot.region, &machine), &[], plan.round_trip).await?;
            nodes.insert(spot.name.clone(), node);
        }
        let operator = operator(world, &authority).await?;
        let deployment =
            Self { nodes: Arc::new(nodes), stoppers: Arc::default(), ended: Arc::default(), operator };
        for name in first {
            deployment.start(&name);
        }
        Ok(deployment)
    }

    /// The machine of the node called `name`.
    #[must_use]
    pub fn machine(&self, name: &str) -> Option<&Machine> {
        self.nodes.get(name).map(|node| &node.machine)
    }

    /// The operator.
    #[must_use]
    pub const fn operator(&self) -> &Operator {
        &self.operator
    }

    /// Applies a configuration through the node called `node`, as soon as there is a leader, within fifteen seconds.
    ///
    /// # Errors
    /// [`ExchangeError`]: the last refusal.
    pub async fn apply(&self, node: &str, text: &str) -> Result<Changed, ExchangeError> {
        self.operator.apply_when_led(node, text).await
    }

    /// Starts the node called `name`, after killing its process if one runs.
    pub fn start(&self, name: &str) {
        let Some(node) = self.nodes.get(name) else { return };
        let host = node.machine.start();
        let (stopper, stop) = Stopper::new();
        self.stoppers.lock().insert(name.to_owned(), stopper);
        let running = node.run(host.clone(), stop.clone());
        let (ended, name) = (Arc::clone(&self.ended), name.to_owned());
        drop(host.spawn("node", async move {
            let why = match running.await {
                Err(why) => why,
                Ok(()) if stop.is_wanted() => return,
                Ok(()) => "ended by itself".to_owned(),
            };
            tracing::error!(node = name, why, "a node ended");
            ended.lock().push(format!("{name}: {why}"));
        }));
    }

    /// Asks the node called `name` to stop in good order.
    pub fn stop(&self, name: &str) {
        if let Some(stopper) = self.stoppers.lock().get(name) {
            stopper.stop();
        }
    }

    /// Nodes that ended without being asked or killed, and why.
    #[must_use]
    pub fn ended(&self) -> Vec<String> {
        self.ended.lock().clone()
    }
}

impl Node {
    fn run(&self, host: Host, stop: Stop) -> impl Future<Output = Result<(), String>> + Send + use<> {
        let work: seam::Boxed<'static, Result<(), String>> = match &self.kind {
            Kind::Central(text) => {
                let config = central::config::Config::parse("central.toml", text);
                Box::pin(async move {
                    let config = config.map_err(|error| chain(&error))?;
                    central::node::run(host, config, stop).await.map_err(|error| chain(&error))
                })
            }
            Kind::Edge(text) => {
                let config = edge::config::Config::parse("edge.toml", text);
                Box::pin(async move {
                    let config = config.map_err(|error| chain(&error))?;
                    edge::node::run(host, config, stop).await.map_err(|error| chain(&error))
                })
            }
            Kind::Model(options) => {
                let options = options.clone();
                Box::pin(async move { demo::run(&host, options, stop).await.map_err(|error| chain(&error)) })
            }
        };
        work
    }
}

/// An error and what caused it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Writing to a string cannot fail.
        let _infallible = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}

/// A central node's number, region and machine.
type Member<'a> = (u64, &'a str, &'a Machine);

fn members<'a>(centrals: &'a [(&'a str, Machine)]) -> Vec<Member<'a>> {
    (1..).zip(centrals).map(|(id, (region, machine))| (id, *region, machine)).collect()
}

async fn central(
    authority: &Authority,
    (id, region, machine): &Member<'_>,
    members: &[Member<'_>],
    round_trip: Duration,
) -> Result<Node, DeployError> {
    enrol(authority, machine, &format!("central/{region}/{}", machine.name())).await?;
    write_atomic(&*machine.disk(), Path::new(SEAL_KEYS), Bytes::from(configs::seal_keys())).await?;
    let listed = members.iter().map(|(id, region, machine)| configs::Member {
        id: *id,
        name: machine.name().to_owned(),
        region: (*region).to_owned(),
        mesh: machine.at(MESH),
    });
    let listed: Vec<_> = listed.collect();
    let kind = Kind::Central(configs::central("", Ipv4Addr::UNSPECIFIED, *id, round_trip, &listed));
    Ok(Node { machine: Machine::clone(machine), kind })
}

async fn edge(
    authority: &Authority,
    machine: Machine,
    (region, name): (&str, &str),
    centrals: &[(&str, Machine)],
) -> Result<Node, DeployError> {
    enrol(authority, &machine, &format!("edge/{region}/{name}")).await?;
    let seeds: Vec<_> = centrals.iter().map(|(_, machine)| format!("{}:{MESH}", machine.name())).collect();
    let kind = Kind::Edge(configs::edge("", Ipv4Addr::UNSPECIFIED, machine.at(MESH), &seeds));
    Ok(Node { machine, kind })
}

async fn enrol(authority: &Authority, machine: &Machine, who: &str) -> Result<(), DeployError> {
    authority.enrol(machine, who, Path::new(CREDENTIALS)).await?;
    machine.disk().create_dir_all(Path::new(DATA)).await?;
    Ok(())
}

async fn operator(world: &World, authority: &Authority) -> Result<Operator, DeployError> {
    let machine = world.machine("operator");
    enrol(authority, &machine, "operator/eu/operator").await?;
    let host = machine.start();
    let making = async move { Operator::new(host, Path::new(CREDENTIALS), ADMIN).await };
    let made = machine.run("operator", making).await;
    Ok(made.map_err(|_gone| DeployError::Gone)??)
}

fn model_options(region: &str) -> demo::Options {
    demo::Options {
        listen: ([0, 0, 0, 0], MODELS).into(),
        name: format!("model-{region}"),
        region: region.to_owned(),
        key: (region == "provider").then(|| PROVIDER_KEY.to_owned()),
        first_token: Duration::from_millis(50),
        tokens_per_s: 100,
    }
}
