//! After the faults: waits until the mesh is whole, tries it, and gathers what is on disks and in logs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use central::admin::api::Ledger;

use super::setup::{INPUT_PRICE, OUTPUT_PRICE, RECORDS, REVOKED, Stage};
use crate::actors::{CallerSetup, observation};
use crate::evidence::{Evidence, Facts, InForce, Paid, Record};
use crate::faults::Kind;
use crate::history::{CallOutcome, Observation};
use crate::scenario::{Scenario, ServerSpec};
use crate::schedule::{Schedule, Until};

/// Between two looks at a mesh that heals.
const AGAIN: Duration = Duration::from_millis(200);
/// A node that takes longer says nothing.
const PATIENCE: Duration = Duration::from_secs(3);
/// A model server that failed again and again is left alone for half a minute.
const FOUND_WITHIN: Duration = Duration::from_secs(40);
/// Between two calls for a model that is not found.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// The books are settled this long after the last call: unused credit goes back after 2 s without demand, and what was not
/// heard is said again each 2 s. What is not back by then never comes.
const SETTLED_WITHIN: Duration = Duration::from_secs(20);
/// Records and receipts reach disks, and connections without use close.
const QUIET: Duration = Duration::from_secs(3);

impl Stage {
    /// Waits until the mesh is whole, and says how long that took; `None` when it took longer than `most`.
    pub(super) async fn converge(&self, most: Duration) -> Option<Duration> {
        let ground = self.field.ground();
        let began = ground.now();
        // Nothing counts as attached before the first look.
        let mut newest = u64::MAX;
        while ground.now().since(began) <= most + AGAIN {
            if self.is_whole(&mut newest).await {
                return Some(ground.now().since(began));
            }
            ground.sleep(AGAIN).await;
        }
        None
    }

    /// Whether all central nodes that run know one leader, and all edges that run are attached with the newest
    /// epoch of the last look, which becomes that of this one: operators go on changing things.
    async fn is_whole(&self, newest: &mut u64) -> bool {
        let mut views = Vec::new();
        for name in self.field.names(Kind::Central).iter().filter(|name| !self.field.is_out(name)) {
            match self.look(name).await {
                Some(seen) => views.push(seen),
                None => return false,
            }
        }
        let Some(now) = views.iter().map(|seen| seen.epoch).max() else { return false };
        let newest = std::mem::replace(newest, now);
        let leaders: BTreeSet<_> = views.iter().map(|seen| seen.leader.as_ref()).collect();
        let edges = self.field.names(Kind::Edge);
        let edges: Vec<_> = edges.iter().filter(|name| !self.field.is_out(name)).collect();
        let attached = |seen: &Observation| {
            edges.iter().all(|name| {
                matches!(seen.edges.get(*name), Some((Some(_central), Some(epoch))) if *epoch >= newest)
            })
        };
        leaders.len() == 1 && !leaders.contains(&None) && views.iter().all(attached)
    }

    async fn look(&self, name: &str) -> Option<Observation> {
        let operator = &self.operations.operator;
        let at = self.recorder.now();
        let status = operator.host().timeout(PATIENCE, operator.status(name)).await.ok()?.ok()?;
        let seen = observation((at, self.recorder.now()), &status);
        self.field.set_leader(seen.leader.clone());
        self.recorder.write(|history| history.observations.push(seen.clone()));
        Some(seen)
    }

    /// Tries the healed mesh and gathers the evidence.
    pub(super) async fn finish(
        &self,
        scenario: &Scenario,
        schedule: &Schedule,
        before: (BTreeMap<String, usize>, usize),
        converged: Option<Duration>,
    ) -> Evidence {
        let fresh = self.try_all(scenario, schedule).await;
        let ledger = self.settled().await;
        self.field.ground().sleep(QUIET).await;
        let serials = self.last_read().await;
        let (tasks, streams) = self.counts();
        let tasks = tasks.into_iter().filter_map(|(name, after)| {
            let before = before.0.get(&name).copied()?;
            Some((name, (before, after)))
        });
        let tasks = tasks.collect();
        Evidence {
            facts: self.facts(scenario, schedule),
            records: self.records().await,
            ledger,
            log: self.field.ground().log(),
            serials,
            ended: self.field.ground().ended(),
            epochs: self.epochs(),
            converged,
            fresh,
            tasks,
            streams: (before.1, streams),
            history: self.recorder.take(),
        }
    }

    /// Fresh calls at every edge and a fresh write, with what was wrong.
    async fn try_all(&self, scenario: &Scenario, schedule: &Schedule) -> Vec<(String, Option<String>)> {
        let mut fresh = Vec::new();
        for edge in self.field.names(Kind::Edge).into_iter().filter(|name| !self.field.is_out(name)) {
            let mut call = self.ask(&edge, false, scenario, "fresh").await;
            // A model server that refuses by its nature may be unlucky three times, hardly more; what the limit of an account
            // lets pass comes free again.
            let is_limited = scenario.topology.server.iter().any(|server| server.requests_per_min.is_some());
            let (times, after) = if is_limited { (20, ASK_AGAIN) } else { (3, Duration::ZERO) };
            for _again in 0..times {
                if call.outcome != CallOutcome::Complete {
                    self.field.ground().sleep(after).await;
                    call = self.ask(&edge, false, scenario, "fresh").await;
                }
            }
            let wrong = (call.outcome != CallOutcome::Complete).then(|| format!("{call:?}"));
            fresh.push((format!("a call at {edge}"), wrong));
        }
        if schedule.faults.iter().all(|dated| dated.until != Until::Never) {
            fresh.extend(self.try_models(scenario).await);
        }
        if self.recorder.write(|history| history.revoked).is_some() {
            for edge in self.field.names(Kind::Edge).into_iter().filter(|name| !self.field.is_out(name)) {
                let setup = CallerSetup { keys: [REVOKED, REVOKED], ..self.callers(scenario) };
                let call = self.ask_as(setup, &edge, false, "revoked").await;
                let wrong = (call.outcome == CallOutcome::Complete).then(|| format!("served: {call:?}"));
                fresh.push((format!("a call with a revoked key at {edge}"), wrong));
            }
        }
        for node in &self.centrals() {
            let (serial, acked) = self.operations.write(node).await;
            let wrong = if acked {
                let read = self.operations.read(node).await;
                let is_there = read.is_some_and(|read| read.serials.contains(&serial));
                (!is_there).then(|| "acknowledged, and not read back".to_owned())
            } else {
                Some("not acknowledged".to_owned())
            };
            fresh.push((format!("a write through {node}"), wrong));
        }
        fresh
    }

    /// A call for each model at every edge: each edge finds the way to whatever serves somewhere.
    async fn try_models(&self, scenario: &Scenario) -> Vec<(String, Option<String>)> {
        let (ground, usual) = (self.field.ground(), self.callers(scenario));
        let mut fresh = Vec::new();
        for edge in self.field.names(Kind::Edge).into_iter().filter(|name| !self.field.is_out(name)) {
            for model in &usual.models {
                let setup = CallerSetup { models: vec![model.clone()], ..usual.clone() };
                let began = ground.now();
                let call = loop {
                    let call = self.ask_as(setup.clone(), &edge, false, "fresh").await;
                    if call.outcome == CallOutcome::Complete || ground.now().since(began) > FOUND_WITHIN {
                        break call;
                    }
                    ground.sleep(ASK_AGAIN).await;
                };
                let wrong = (call.outcome != CallOutcome::Complete).then(|| format!("{call:?}"));
                fresh.push((format!("a call for {model} at {edge}"), wrong));
            }
        }
        fresh
    }

    /// The books once nothing is on its way any more, or as they are after a while.
    async fn settled(&self) -> Option<Ledger> {
        let ground = self.field.ground();
        let began = ground.now();
        let mut last = None;
        while ground.now().since(began) < SETTLED_WITHIN {
            if let Some(ledger) = self.ledger().await {
                // Credit that nobody uses any more comes back by itself.
                let unsettled = |row: &central::admin::api::LedgerRow| row.settling.0 + row.outstanding.0;
                let is_settled = ledger.rows.iter().all(|row| unsettled(row) == 0);
                last = Some(ledger);
                if is_settled {
                    break;
                }
            }
            ground.sleep(AGAIN).await;
        }
        last
    }

    async fn ledger(&self) -> Option<Ledger> {
        let operator = &self.operations.operator;
        for node in &self.centrals() {
            if let Ok(Ok(ledger)) = operator.host().timeout(PATIENCE, operator.ledger(node)).await {
                return Some(ledger);
            }
        }
        None
    }

    /// Central nodes that can be asked.
    fn centrals(&self) -> Vec<String> {
        let mut names = self.operations.centrals.names();
        names.retain(|name| !self.field.is_out(name));
        names
    }

    async fn last_read(&self) -> Option<BTreeSet<u64>> {
        for node in &self.centrals() {
            if let Some(read) = self.operations.read(node).await {
                return Some(read.serials);
            }
        }
        None
    }

    fn facts(&self, scenario: &Scenario, schedule: &Schedule) -> Facts {
        let never = schedule.faults.iter().filter(|dated| dated.until == Until::Never).map(|dated| dated.id);
        let never: BTreeSet<usize> = never.collect();
        let struck = self.recorder.write(|history| history.struck.clone());
        let broken = struck.iter().filter(|struck| never.contains(&struck.id));
        let servers = scenario.topology.server.iter();
        let room = |server: &ServerSpec| Some((server.name.clone(), server.concurrency?));
        let crowds = scenario.crowd.iter().map(|crowd| (crowd.tenant.clone(), crowd.clone()));
        Facts {
            budget: scenario.topology.budget,
            levels: scenario.topology.levels(),
            call_price: scenario.topology.call_price,
            input_price: INPUT_PRICE,
            output_price: OUTPUT_PRICE,
            dear: scenario.topology.dear.clone(),
            crowds: crowds.collect(),
            limits: scenario.topology.limits.clone(),
            rooms: scenario.topology.server.iter().filter_map(room).collect(),
            max_stale: scenario.topology.max_stale_s.map(Duration::from_secs),
            machines: self.machines(),
            broken: broken.flat_map(|struck| struck.machines.clone()).collect(),
            converge_within: scenario.expect.converge_within.most,
            edges: self.edge_regions(),
            servers: servers.map(|server| (server.name.clone(), server.serves.clone())).collect(),
            expect: scenario.expect.clone(),
        }
    }

    /// What each machine is that was a part of the mesh.
    fn machines(&self) -> BTreeMap<String, Kind> {
        let places = self.field.places().iter().filter(|(name, _)| !self.field.is_absent(name));
        places.map(|(name, place)| (name.clone(), place.kind)).collect()
    }

    fn edge_regions(&self) -> BTreeMap<String, String> {
        let places = self.field.places().iter().filter(|(_, place)| place.kind == Kind::Edge);
        places.map(|(name, place)| (name.clone(), place.region.clone())).collect()
    }

    fn epochs(&self) -> Vec<InForce> {
        let in_force = |line: crate::engine::Line| {
            let (_, after) = line.text.strip_prefix("configuration in force")?.split_once("epoch=")?;
            let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            Some(InForce { edge: line.machine, at: line.at, epoch: after.get(..digits)?.parse().ok()? })
        };
        self.field.ground().log().into_iter().filter_map(in_force).collect()
    }

    async fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for edge in self.field.names(Kind::Edge) {
            for text in self.field.ground().files(&edge, Path::new(RECORDS)).await {
                records.extend(text.lines().filter_map(|line| record(&edge, line)));
            }
        }
        records
    }
}

/// A line of a record file; `None` for one that was torn.
fn record(edge: &str, line: &str) -> Option<Record> {
    let read: serde_json::Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| read.get(name).and_then(serde_json::Value::as_str).map(str::to_owned);
    Some(Record {
        edge: edge.to_owned(),
        request: text("request")?,
        tenant: text("tenant"),
        outcome: text("outcome")?,
        cost: read.get("cost").and_then(serde_json::Value::as_u64).unwrap_or(0),
        paid: paid(&read),
    })
}

fn paid(read: &serde_json::Value) -> Paid {
    let text = |name: &str| read.get(name).and_then(serde_json::Value::as_str).map(str::to_owned);
    let tokens = |side: &str| read.pointer(side).and_then(serde_json::Value::as_u64).unwrap_or(0);
    let off = read.get("features_off").and_then(serde_json::Value::as_array).into_iter().flatten();
    Paid {
        model: text("model"),
        provider: text("provider"),
        budget: text("budget"),
        tokens: tokens("/usage/input") + tokens("/usage/output"),
        features_off: off.filter_map(|name| Some(name.as_str()?.to_owned())).collect(),
    }
}
