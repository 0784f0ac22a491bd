//! Operators who change what calls use while they use it, each one object: a key, which at times may ask for one model
//! alone or make one call a second, and a provider, which moves between the servers that have its models and between two
//! credentials.

use base::Mono;
use seam::Stop;
use simulation_hooks::Random;

use super::Centrals;
use super::operator::outcome;
use crate::deployment::{MODELS, NEXT_PROVIDER_KEY, PROVIDER_KEY};
use crate::ground::Ground;
use crate::history::{Adjustment, Recorder, Terms, WriteOutcome};
use crate::operator::Operator;
use crate::scenario::{Times, Topology};

/// The key that is restricted, of the free tenant.
pub const BOUND: &str = "sk-of-an-apprentice-0123456789abcdef0123456789abcdef";

/// Operators who change what calls use. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Steward {
    operator: Operator,
    centrals: Centrals,
    recorder: Recorder,
    /// The model that the key may ask for at all times.
    model: String,
    /// Servers that the provider may be at, with their addresses: the first has its name.
    servers: Vec<(String, String)>,
}

impl Steward {
    /// Operators who ask `centrals`.
    #[must_use]
    pub fn new(
        operator: Operator,
        centrals: Centrals,
        recorder: Recorder,
        topology: &Topology,
        ground: &dyn Ground,
    ) -> Self {
        let model = topology.models().first().cloned().unwrap_or_default();
        let first = topology.server.iter().find(|server| server.provider);
        let alike = topology
            .server
            .iter()
            .filter(|server| server.provider && first.is_some_and(|first| first.serves == server.serves));
        let servers = alike.map(|server| (server.name.clone(), ground.address(&server.name)));
        Self { operator, centrals, recorder, model, servers: servers.collect() }
    }

    /// The key as it is before the first change, in the form that `apply` reads; the provider is there.
    #[must_use]
    pub fn first(&self) -> String {
        self.text(&Terms::Key { only: None, limited: false })
    }

    /// Changes each object until `stop`, with `every` between.
    pub fn start(&self, every: Times, ground: &dyn Ground, stop: &Stop) {
        let first_server = self
            .servers
            .first()
            .map(|(name, _address)| Terms::Provider { server: name.clone(), credential: PROVIDER_KEY });
        for first in [Some(Terms::Key { only: None, limited: false }), first_server].into_iter().flatten() {
            let (this, host, stop) = (self.clone(), self.operator.host().clone(), stop.clone());
            let mut random = ground.random(&format!("steward of {first:?}"));
            self.note_first(first.clone());
            drop(self.operator.host().spawn("steward", async move {
                let mut last = first;
                while !stop.is_wanted() {
                    host.sleep(every.draw(&mut random)).await;
                    last = this.draw(&last, &mut random);
                    this.adjust(last.clone(), &mut random).await;
                }
            }));
        }
    }

    /// Notes what an object was from the beginning.
    fn note_first(&self, terms: Terms) {
        let (started, ended, outcome) = (Mono::ZERO, Some(Mono::ZERO), WriteOutcome::Acked(0));
        let first = Adjustment { terms, started, ended, outcome };
        self.recorder.write(|history| history.adjustments.push(first));
    }

    /// Something else than `last`, of the same object.
    fn draw(&self, last: &Terms, random: &mut Random) -> Terms {
        match last {
            Terms::Key { only, limited } => {
                // One of its two sides changes.
                let (is_bound, turns) = (only.is_some(), random.below(2) == 0);
                let only = (is_bound != turns).then(|| self.model.clone());
                Terms::Key { only, limited: *limited == turns }
            }
            Terms::Provider { server, credential } => {
                let others = self.servers.iter().filter(|(name, _address)| name != server);
                let others: Vec<&String> = others.map(|(name, _address)| name).collect();
                let at = usize::try_from(random.below(others.len() as u64 + 1)).unwrap_or(0);
                let other = if *credential == PROVIDER_KEY { NEXT_PROVIDER_KEY } else { PROVIDER_KEY };
                others.get(at).map_or_else(
                    || Terms::Provider { server: server.clone(), credential: other },
                    |moved| Terms::Provider { server: (*moved).clone(), credential },
                )
            }
        }
    }

    async fn adjust(&self, terms: Terms, random: &mut Random) {
        let (node, text) = (self.centrals.any(random), self.text(&terms));
        let started = self.recorder.now();
        let at = self.recorder.write(|history| {
            let outcome = WriteOutcome::Unknown("under way".to_owned());
            history.adjustments.push(Adjustment { terms, started, ended: None, outcome });
            history.adjustments.len() - 1
        });
        let outcome = outcome(self.operator.apply(&node, &text).await);
        let ended = self.recorder.now();
        self.recorder.write(|history| {
            if let Some(adjustment) = history.adjustments.get_mut(at) {
                adjustment.ended = Some(ended);
                adjustment.outcome = outcome;
            }
        });
    }

    /// The object as it is to be, in the form that `apply` reads.
    fn text(&self, terms: &Terms) -> String {
        match terms {
            Terms::Key { only, limited } => {
                let models = only.as_ref().map_or_else(String::new, |model| format!(", models: [{model}]"));
                let limits = if *limited { ", limits: {requests_per_s: 1}" } else { "" };
                format!(
                    "keys: [{{name: bound-key, tenant: free, app: web, secret: {BOUND}{models}{limits}}}]\n"
                )
            }
            Terms::Provider { server, credential } => {
                let name = self.servers.first().map_or("", |(name, _address)| name);
                let at = self.servers.iter().find(|(name, _address)| name == server);
                let at = at.map_or("", |(_name, address)| address);
                format!(
                    "providers: [{{name: {name}, base_url: \"http://{at}:{MODELS}\", credential: {credential}}}]\n"
                )
            }
        }
    }
}
