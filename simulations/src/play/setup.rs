//! Sets the stage: machines, links as drawn, the mesh, model servers, the first configuration, and a first answer at
//! every edge.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use seam::Host;

use super::PlayError;
use crate::actors::{Caller, CallerSetup, Centrals, Dns, ModelServer, Operations, Rivals, Steward};
use crate::deployment::{Deployment, MODELS, PROVIDER_KEY, Plan, Spot};
use crate::engine::{DiskFaults, Link, World};
use crate::faults::{Field, Kind, Place};
use crate::ground::{Ground, Simulated};
use crate::history::{Call, CallOutcome, Recorder};
use crate::operator::Operator;
use crate::scenario::{AccountKey, Chance, Counts, Load, Scenario, ServerSpec, Topology, dollars};
use crate::schedule::{CallerPlan, Schedule, Wire, successor};

/// The key of the tenant that a strict budget pays for.
pub(super) const STRICT: &str = "sk-of-the-strict-tenant-0123456789abcdef0123456789abcdef";
/// The key of the tenant that no budget binds.
pub(super) const FREE: &str = "sk-of-the-free-tenant-0123456789abcdef0123456789abcdef";
/// A key of the free tenant that is revoked in the middle of the run.
pub(super) const REVOKED: &str = "sk-of-a-former-colleague-0123456789abcdef0123456789abcdef";
/// Where edges keep call records.
pub(super) const RECORDS: &str = "/records";
/// Prices in nano-dollars: one and two dollars per million tokens.
pub(super) const INPUT_PRICE: u64 = 1_000;
pub(super) const OUTPUT_PRICE: u64 = 2_000;

/// A mesh without faults answers within this.
const SERVES_WITHIN: Duration = Duration::from_secs(20);
const AGAIN: Duration = Duration::from_millis(100);

/// A mesh that serves, and those around it.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(super) field: Field,
    pub(super) recorder: Recorder,
    pub(super) operations: Operations,
    pub(super) rivals: Rivals,
    pub(super) steward: Steward,
    pub(super) dns: Dns,
    /// Callers' hosts by region.
    pub(super) hosts: BTreeMap<String, Host>,
}

impl Stage {
    /// Sets it in a simulated world.
    pub(super) async fn simulated(
        world: &World,
        scenario: &Scenario,
        schedule: &Schedule,
        recorder: &Recorder,
    ) -> Result<Self, PlayError> {
        world.default_link(usual_link(schedule));
        let mesh = Deployment::planned(world, &plan(&scenario.topology, schedule)).await?;
        for name in actors(&scenario.topology) {
            let _found_by_name = world.machine(&name);
        }
        let ground: Arc<dyn Ground> = Arc::new(Simulated::new(world, &mesh));
        Self::set(&ground, mesh.operator(), scenario, schedule, recorder).await
    }

    /// Sets it on `ground`, on which central and edges have been started.
    pub(crate) async fn set(
        ground: &Arc<dyn Ground>,
        operator: &Operator,
        scenario: &Scenario,
        schedule: &Schedule,
        recorder: &Recorder,
    ) -> Result<Self, PlayError> {
        let topology = &scenario.topology;
        let mut servers = BTreeMap::new();
        for spec in &topology.server {
            let server = ModelServer::new(ground, spec.clone(), recorder.clone());
            server.start();
            servers.insert(spec.name.clone(), server);
        }
        let mut hosts = BTreeMap::new();
        for region in topology.edges.keys() {
            hosts.extend(ground.boot(&callers_of(region)).map(|host| (region.clone(), host)));
        }
        let (least, most) = schedule.sync_us;
        let disk = DiskFaults {
            sync_takes: Duration::from_micros(least),
            sync_jitter: Duration::from_micros(most.saturating_sub(least)),
            ..DiskFaults::default()
        };
        let field = Field::new(ground, places(topology, schedule), servers, disk);
        field.set_absent(spares(topology, schedule).into_iter().map(|spot| spot.name).collect());
        lay_links(&field, schedule);
        let operations = Operations {
            operator: operator.clone(),
            centrals: Centrals::new(topology.centrals()),
            recorder: recorder.clone(),
        };
        let distances =
            schedule.links.iter().map(|wire| (wire.one.clone(), wire.other.clone(), wire.delay_us));
        let dns = Dns::new(topology.edge_spots(), distances.collect());
        let model = topology.models().first().cloned().unwrap_or_default();
        let centrals = operations.centrals.clone();
        let rivals = Rivals::new(operator.clone(), centrals.clone(), recorder.clone(), &model);
        let steward = Steward::new(operator.clone(), centrals, recorder.clone(), topology, &**ground);
        let stage = Self { field, recorder: recorder.clone(), operations, rivals, steward, dns, hosts };
        let first = stage.operations.centrals.names().first().cloned().unwrap_or_default();
        let text = catalog(topology, &**ground);
        operator.apply_when_led(&first, &text).await.map_err(PlayError::Apply)?;
        if scenario.load.rivals > 0 {
            let shared = operator.apply_when_led(&first, &stage.rivals.first()).await;
            shared.map_err(PlayError::Apply)?;
        }
        if scenario.load.adjust_every.is_some() {
            let bound = operator.apply_when_led(&first, &stage.steward.first()).await;
            bound.map_err(PlayError::Apply)?;
        }
        for crowd in &scenario.crowd {
            let applied = operator.apply_when_led(&first, &crowd.catalog()).await;
            applied.map_err(PlayError::Apply)?;
        }
        stage.first_answers(scenario).await?;
        Ok(stage)
    }

    /// Asks at every edge until each has answered both tenants.
    async fn first_answers(&self, scenario: &Scenario) -> Result<(), PlayError> {
        let ground = self.field.ground();
        let began = ground.now();
        for edge in self.field.names(Kind::Edge) {
            for strict in [true, false] {
                loop {
                    let call = self.ask(&edge, strict, scenario, "first").await;
                    if call.outcome == CallOutcome::Complete {
                        break;
                    }
                    if ground.now().since(began) > SERVES_WITHIN {
                        return Err(PlayError::NeverServed(format!("{call:?}")));
                    }
                    ground.sleep(AGAIN).await;
                }
            }
        }
        Ok(())
    }

    /// One call at `edge` by an ordinary caller of the region nearest to it, in the history as any other.
    pub(super) async fn ask(&self, edge: &str, strict: bool, scenario: &Scenario, why: &str) -> Call {
        self.ask_as(self.callers(scenario), edge, strict, why).await
    }

    /// The same with other keys or for other models.
    pub(super) async fn ask_as(&self, setup: CallerSetup, edge: &str, strict: bool, why: &str) -> Call {
        let region = self.field.places().get(edge).map(|place| place.region.clone()).unwrap_or_default();
        let plan = CallerPlan {
            name: format!("{why}-{edge}"),
            region: region.clone(),
            strict,
            at_once: 0,
            crowd: None,
        };
        let load = Load { streamed: Chance(0), max_tokens: Counts::exactly(8), ..Load::default() };
        let setup = CallerSetup { load, revoked: setup.keys.contains(&REVOKED), ..setup };
        let number = self.recorder.write(|history| history.calls.len());
        let random = self.field.ground().random(&format!("{why} at {edge} {number}"));
        let Some(host) = self.hosts.get(&region).cloned() else { return lost() };
        let mut caller = Caller::new(host.clone(), plan, setup, random);
        let edge = edge.to_owned();
        let asking = host.spawn("ask", async move { caller.call(Some(&edge), None).await });
        asking.await.unwrap_or_else(|_gone| lost())
    }
}

/// A call that was never made.
fn lost() -> Call {
    Call {
        id: u64::MAX,
        retry_of: None,
        caller: String::new(),
        region: String::new(),
        strict: false,
        revoked: false,
        bound: false,
        crowd: None,
        batch: false,
        edge: String::new(),
        skipped: Vec::new(),
        model: String::new(),
        stream: false,
        started: base::Mono::ZERO,
        sent: None,
        head: None,
        first_byte: None,
        ended: None,
        outcome: CallOutcome::Abandoned,
        status: None,
        code: None,
        request: None,
    }
}

/// What stands where, of the nodes.
pub(crate) fn plan(topology: &Topology, schedule: &Schedule) -> Plan {
    Plan {
        centrals: topology.centrals(),
        spares: spares(topology, schedule),
        edges: topology.edge_spots(),
        round_trip: Duration::from_millis(schedule.round_trip),
        records: Some(RECORDS),
    }
}

/// Machines that stand ready to take the places of central nodes.
fn spares(topology: &Topology, schedule: &Schedule) -> Vec<Spot> {
    let spare = |spot: Spot| Spot { name: successor(&spot.name), region: spot.region };
    topology.centrals().into_iter().filter(|_| schedule.replaces()).map(spare).collect()
}

/// The machines of all who are no nodes and no operators.
pub(crate) fn actors(topology: &Topology) -> Vec<String> {
    let servers = topology.server.iter().map(|server| server.name.clone());
    servers.chain(topology.edges.keys().map(|region| callers_of(region))).collect()
}

/// The machine of a region's callers.
fn callers_of(region: &str) -> String {
    format!("callers-{region}")
}

/// All machines, by name.
fn places(topology: &Topology, schedule: &Schedule) -> BTreeMap<String, Place> {
    let place = |region: &str, kind| Place { region: region.to_owned(), kind };
    let mut places = BTreeMap::new();
    let centrals = topology.centrals().into_iter().chain(spares(topology, schedule)).collect();
    for (spots, kind) in [(centrals, Kind::Central), (topology.edge_spots(), Kind::Edge)] {
        places.extend(spots.into_iter().map(|spot| (spot.name, place(&spot.region, kind))));
    }
    let servers = topology.server.iter();
    places.extend(servers.map(|server| (server.name.clone(), place(&server.region, Kind::Model))));
    let regions = topology.edges.keys();
    places.extend(regions.map(|region| (callers_of(region), place(region, Kind::Callers))));
    places.insert("operator".to_owned(), place("", Kind::Outside));
    places
}

fn usual_link(schedule: &Schedule) -> Link {
    let between = schedule.links.iter().filter(|wire| wire.one != wire.other);
    let delay = between.map(|wire| wire.delay_us).min().unwrap_or(1_000);
    Link { delay: Duration::from_micros(delay), ..Link::default() }
}

fn lay_links(field: &Field, schedule: &Schedule) {
    let joins = |wire: &Wire, one: &str, other: &str| {
        (wire.one == one && wire.other == other) || (wire.one == other && wire.other == one)
    };
    let usual = usual_link(schedule);
    for (from, one) in field.places() {
        for (to, other) in field.places().iter().filter(|(to, _)| *to != from) {
            let wire = schedule.links.iter().find(|wire| joins(wire, &one.region, &other.region));
            let link = wire.map_or_else(
                || usual.clone(),
                |wire| Link {
                    delay: Duration::from_micros(wire.delay_us),
                    jitter: Duration::from_millis(wire.jitter_ms),
                    loss: wire.loss,
                    ..Link::default()
                },
            );
            field.set_link(from, to, link);
        }
    }
}

/// Two tenants, one of them under a strict budget, and the models that the servers serve.
fn catalog(topology: &Topology, ground: &dyn Ground) -> String {
    let window = topology.window.name();
    let horizon = topology.horizon_ms.map_or_else(String::new, |ms| format!(", horizon_ms: {ms}"));
    let levels: String = topology.level.iter().map(|level| format!(", {}", level.text(&horizon))).collect();
    let stale = topology.max_stale_s.map_or_else(String::new, |s| format!(", max_stale_s: {s}"));
    let mut text = format!(
        "tenants: [{{name: strict{stale}}}, {{name: free{stale}}}]\n\
         apps: [{{tenant: strict, name: web}}, {{tenant: free, name: web}}]\n\
         keys: [{{name: strict-key, tenant: strict, app: web, secret: {STRICT}}}, {{name: free-key, tenant: free, app: web, secret: {FREE}}}, \
           {{name: former-key, tenant: free, app: web, secret: {REVOKED}}}]\n\
         budgets: [{{name: all, tenant: strict, unit: usd, window: {window}, limit: {}{horizon}}}{levels}]\n\
         providers:\n",
        dollars(topology.budget),
    );
    // Writing to a string cannot fail.
    for server in topology.server.iter().filter(|server| server.provider) {
        let (name, at) = (&server.name, ground.address(&server.name));
        let _infallible =
            writeln!(text, "- {{name: {name}, base_url: \"http://{at}:{MODELS}\", {}}}", account(server));
    }
    let text = text.trim_end_matches("providers:\n").to_owned();
    let mut text = if topology.server.iter().any(|server| server.provider) {
        text
    } else {
        text.trim_end().to_owned() + "\n"
    };
    text += "models:\n";
    for model in topology.models() {
        let serving = topology.server.iter().filter(|server| server.serves.contains(&model));
        let (providers, replicas): (Vec<_>, Vec<_>) = serving.partition(|server| server.provider);
        let replica = |server: &&ServerSpec| {
            let (name, region, at) = (&server.name, &server.region, ground.address(&server.name));
            let room = server.concurrency.map_or_else(String::new, |most| format!(", concurrency: {most}"));
            format!("{{name: {name}, region: {region}, url: \"http://{at}:{MODELS}\"{room}}}")
        };
        let _infallible = write!(
            text,
            "- {{name: {model}, price: {}, context: 8192, output_cap: 64, \
             timeouts: {{connect_ms: 1000, first_byte_ms: 4000, idle_ms: 4000, total_ms: 20000}}",
            price(topology, &model),
        );
        if let Some(provider) = providers.first() {
            let _infallible = write!(text, ", provider: {}", provider.name);
        }
        if !replicas.is_empty() {
            let replicas: Vec<String> = replicas.iter().map(replica).collect();
            let _infallible = write!(text, ", replicas: [{}]", replicas.join(", "));
        }
        if let Some(limits) = topology.limits.get(&model) {
            let _infallible = write!(text, ", limits: {}", limits.text());
        }
        text += "}\n";
    }
    if !topology.routes.is_empty() {
        text += "routes:\n";
    }
    for (route, targets) in &topology.routes {
        let targets = targets.join(", ");
        let _infallible = writeln!(text, "- {{name: {route}, strategy: ordered, targets: [{targets}]}}");
    }
    text
}

/// A provider's credential, or its keys, and its limit.
fn account(server: &ServerSpec) -> String {
    let key =
        |key: &AccountKey| format!("{{name: {}, credential: {}}}", key.name, key.credential(&server.name));
    let keys: Vec<_> = server.keys.iter().map(key).collect();
    let keys = if keys.is_empty() {
        format!("credential: {PROVIDER_KEY}")
    } else {
        format!("keys: [{}]", keys.join(", "))
    };
    let limit = server.requests_per_min;
    let limit = limit.map_or_else(String::new, |most| format!(", limits: {{requests_per_min: {most}}}"));
    keys + &limit
}

/// A model's price, tokens by the million.
fn price(topology: &Topology, model: &str) -> String {
    let times = topology.dear.get(model).copied().unwrap_or(1);
    let (input, output) = (INPUT_PRICE / 1_000 * times, OUTPUT_PRICE / 1_000 * times);
    format!("{{input: {input}, output: {output}, call: {}}}", dollars(topology.call_price * times))
}

/// The change that revokes [`REVOKED`].
pub(super) fn revocation() -> String {
    format!("keys: [{{name: former-key, tenant: free, app: web, secret: {REVOKED}, revoked: true}}]\n")
}
