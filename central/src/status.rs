//! How the mesh is: what each central node sees of itself and its edges, gathered by the node that is asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{Epoch, Name, RegionName, Revision, Role};
use central_core::ledger::LedgerRow;
use central_core::{EdgeNode, State};
use futures_util::future::join_all;
use mesh::{Connection, Links, MeshError, Sender};
use seam::Host;
use serde::{Deserialize, Serialize};
use wire::catalog::{Budget, Catalog, Model, Scope};
use wire::control::{Health, MissingTokenizer, NodeAddr, Opening};
use wire::frame::Kind;

use crate::admin::api;
use crate::books;
use crate::consensus::{Consensus, Member, Standing};
use crate::relay::Relay;
use crate::sessions::Sessions;

/// How long another central node may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// Gathers how the mesh is. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Overview {
    pub(crate) host: Host,
    pub(crate) consensus: Consensus,
    pub(crate) sessions: Sessions,
    pub(crate) links: Links,
    pub(crate) relay: Relay,
}

/// What one central node sees of itself and its edges.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct View {
    /// The newest level that its build knows.
    level: u16,
    epoch: Epoch,
    applied: Revision,
    edges: Vec<EdgeView>,
    links: Vec<(Name, u32)>,
    keys: Vec<api::KeyRow>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct EdgeView {
    edge: Name,
    epoch: Option<Epoch>,
    health: Health,
    /// Follows the view: builds that do not know it read no further.
    #[serde(skip)]
    missing: Vec<MissingTokenizer>,
}

/// The tokenizers that edges lack, by edge.
type Missing = BTreeMap<Name, Vec<MissingTokenizer>>;

impl Overview {
    /// Answers another central node.
    pub(crate) async fn answer(&self, connection: &Connection, mut sender: Sender) -> Result<(), MeshError> {
        if connection.peer().role != Role::Central {
            tracing::warn!(peer = %connection.peer().node, "a node that is not central asked for the status");
            return Ok(());
        }
        let view = self.view();
        sender.send(Kind::RPC_REPLY, &view).await?;
        let missing = view.edges.into_iter().filter(|edge| !edge.missing.is_empty());
        let missing: Missing = missing.map(|edge| (edge.edge, edge.missing)).collect();
        sender.send(Kind::RPC_REPLY, &missing).await?;
        sender.finish()?;
        sender.stopped().await;
        Ok(())
    }

    fn view(&self) -> View {
        let edge = |attached: crate::sessions::Attached| EdgeView {
            edge: attached.edge,
            epoch: attached.applied.map(|(_stamp, epoch)| epoch),
            health: attached.health,
            missing: attached.missing,
        };
        View {
            level: mesh::level(&self.host),
            epoch: self.consensus.read(State::epoch),
            applied: self.consensus.standing().applied,
            edges: self.sessions.attached().into_iter().map(edge).collect(),
            links: self.links.rtts().into_iter().map(|(to, rtt)| (to, micros(rtt))).collect(),
            keys: self.relay.egress().keys().into_iter().map(|key| key_row(self.name(), key)).collect(),
        }
    }

    async fn ask(&self, node: &NodeAddr) -> Option<View> {
        if *node.name.as_str() == *self.name().as_str() {
            return Some(self.view());
        }
        let asking = async {
            let connection = self.links.connect(node).await?;
            let (mut sender, mut receiver) = connection.open(Opening::Status).await?;
            sender.finish()?;
            let mut view = receiver.expect::<View>(Kind::RPC_REPLY).await?;
            // Nothing more comes of a build that tells no missing tokenizers.
            if let Some(frame) = receiver.recv().await? {
                let mut missing: Missing = frame.decode()?;
                for edge in &mut view.edges {
                    edge.missing = missing.remove(&edge.edge).unwrap_or_default();
                }
            }
            Ok::<_, MeshError>(view)
        };
        match self.host.timeout(ANSWER_WITHIN, asking).await {
            Ok(Ok(view)) => Some(view),
            Ok(Err(error)) => {
                tracing::debug!(node = %node.name, %error, "a central node does not answer");
                None
            }
            Err(seam::Late) => None,
        }
    }

    fn name(&self) -> Name {
        self.links.endpoint().identity().node
    }

    /// Keeps a link to every other member, so that round trips are known before somebody asks.
    pub(crate) async fn keep_links(&self) {
        let members = self.consensus.standing().members;
        let mine = self.name();
        let others = members.iter().filter(|member| member.node.name != mine);
        // One that cannot be reached shows as such.
        join_all(others.map(|member| async { drop(self.links.connect(&member.node).await) })).await;
    }

    /// The members and how they answer.
    pub(crate) async fn members(&self) -> api::Members {
        let standing = self.consensus.standing();
        let (members, _views) = self.gather(&standing).await;
        api::Members { leader: standing.leader, members }
    }

    /// The whole picture.
    pub(crate) async fn status(&self) -> api::Status {
        let standing = self.consensus.standing();
        let (members, views) = self.gather(&standing).await;
        let leader = standing.members.iter().find(|member| Some(member.id) == standing.leader);
        let (mut attached, mut keys) = (BTreeMap::new(), Vec::new());
        for (central, view) in views {
            keys.extend(view.keys);
            attached.extend(view.edges.into_iter().map(|edge| (edge.edge.clone(), (central.clone(), edge))));
        }
        let identity = self.links.endpoint().identity();
        let rows = books::rows(&self.consensus).await;
        let (catalog, status) = self.consensus.read(|state| {
            let edges = state.registry().edges.iter();
            let status = api::Status {
                mesh: identity.mesh,
                node: identity.node,
                era: state.era(),
                level: state.level(),
                epoch: state.epoch(),
                leader: leader.map(|member| member.node.name.clone()),
                term: standing.term,
                members,
                edges: edges.map(|(name, edge)| edge_row(name, edge, attached.remove(name))).collect(),
                models: Vec::new(),
                budgets: Vec::new(),
                keys,
            };
            (state.shared_catalog(), status)
        });
        let models = catalog.models.values().map(model_row).collect();
        api::Status { models, budgets: budgets(&catalog, &rows), ..status }
    }

    /// The member that would keep the group from using `level`, and why.
    pub(crate) async fn obstacle(&self, level: u16) -> Option<String> {
        let members = self.consensus.standing().members;
        let asked = members.iter().map(|member| async move { (member, self.ask(&member.node).await) });
        let obstacle = |(member, view): (&Member, Option<View>)| match view {
            Some(view) if view.level >= level => None,
            Some(view) => {
                Some(format!("{} knows only level {}; upgrade it first", member.node.name, view.level))
            }
            None => Some(format!(
                "{} does not answer; every central node must confirm that it knows the level",
                member.node.name
            )),
        };
        join_all(asked).await.into_iter().find_map(obstacle)
    }

    async fn gather(&self, standing: &Standing) -> (Vec<api::MemberRow>, Vec<(Name, View)>) {
        let asked =
            standing.members.iter().map(|member| async move { (member, self.ask(&member.node).await) });
        let (mut rows, mut views) = (Vec::new(), Vec::new());
        for (member, view) in join_all(asked).await {
            rows.push(member_row(member, view.as_ref()));
            views.extend(view.map(|view| (member.node.name.clone(), view)));
        }
        (rows, views)
    }
}

fn member_row(member: &Member, view: Option<&View>) -> api::MemberRow {
    api::MemberRow {
        id: member.id,
        name: member.node.name.clone(),
        region: member.node.region.clone(),
        mesh: member.node.mesh,
        voter: member.votes,
        reachable: view.is_some(),
        epoch: view.map(|view| view.epoch),
        applied: view.map(|view| view.applied.0),
        sessions: view.map(|view| view.edges.len()),
        links: view.map(|view| links(&view.links)).unwrap_or_default(),
    }
}

fn ms(left: Duration) -> u64 {
    u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
}

fn key_model_row(state: egress::KeyModelState) -> api::KeyModelRow {
    api::KeyModelRow {
        model: state.model,
        suspended_ms: state.suspended.map(ms),
        spent_ms: state.spent.map(ms),
        requests_left: state.requests,
        tokens_left: state.tokens,
    }
}

fn key_row(node: Name, state: egress::KeyState) -> api::KeyRow {
    api::KeyRow {
        node,
        provider: state.provider,
        key: state.key,
        weight: state.weight,
        outstanding: state.outstanding,
        suspended_ms: state.suspended.map(ms),
        paced_ms: state.paced.map(ms),
        models: state.models.into_iter().map(key_model_row).collect(),
    }
}

fn edge_row(name: &Name, edge: &EdgeNode, attached: Option<(Name, EdgeView)>) -> api::EdgeRow {
    let (central, seen) = attached.unzip();
    api::EdgeRow {
        name: name.clone(),
        region: edge.region.clone(),
        mesh: edge.mesh,
        attached_to: central,
        epoch: seen.as_ref().and_then(|seen| seen.epoch),
        in_flight: seen.as_ref().map(|seen| seen.health.in_flight),
        draining: seen.as_ref().is_some_and(|seen| seen.health.draining),
        left: edge.left,
        build: edge.build.clone(),
        links: seen.as_ref().map(|seen| links(&seen.health.links)).unwrap_or_default(),
        missing_tokenizers: seen
            .map(|seen| seen.missing.into_iter().map(tokenizer_row).collect())
            .unwrap_or_default(),
    }
}

fn tokenizer_row(missing: MissingTokenizer) -> api::TokenizerRow {
    let MissingTokenizer { name, why, mend } = missing;
    api::TokenizerRow { name, why, mend }
}

fn links(links: &[(Name, u32)]) -> Vec<api::LinkRow> {
    links.iter().map(|(to, rtt_us)| api::LinkRow { to: to.clone(), rtt_us: *rtt_us }).collect()
}

fn model_row(model: &Model) -> api::ModelRow {
    let mut replicas: BTreeMap<RegionName, usize> = BTreeMap::new();
    for replica in &model.replicas {
        *replicas.entry(replica.region.clone()).or_default() += 1;
    }
    api::ModelRow {
        name: model.name.clone(),
        replicas: replicas.into_iter().collect(),
        provider: model.provider.clone(),
        context: model.context,
        priced: model.price.is_some(),
    }
}

fn budgets(catalog: &Arc<Catalog>, rows: &[LedgerRow]) -> Vec<api::BudgetRow> {
    let open = |budget: &Budget| rows.iter().find(|row| row.budget == budget.id && row.open);
    catalog.budgets.values().map(|budget| budget_row(budget, open(budget))).collect()
}

fn budget_row(budget: &Budget, row: Option<&LedgerRow>) -> api::BudgetRow {
    api::BudgetRow {
        name: budget.name.clone(),
        scope: scope(&budget.scope),
        unit: budget.unit,
        window: budget.window,
        limit: budget.limit,
        spent: row.map(|row| row.spent).unwrap_or_default(),
        held: row.map(|row| row.outstanding.saturating_add(row.orphaned)).unwrap_or_default(),
        // A window that nobody asked for yet has all of its limit.
        left: row.map_or(budget.limit, |row| row.left),
    }
}

/// Whose calls a budget pays for, in words.
pub(crate) fn scope(scope: &Scope) -> String {
    match scope {
        Scope::Tenant(tenant) => format!("tenant {tenant}"),
        Scope::App(tenant, app) => format!("app {tenant}/{app}"),
        Scope::Key(key) => format!("key {key}"),
        Scope::Scenario(tenant, scenario) => format!("scenario {tenant}/{scenario}"),
        Scope::Model(Some(tenant), model) => format!("model {model} of tenant {tenant}"),
        Scope::Model(None, model) => format!("model {model}"),
        Scope::Provider(provider) => format!("provider {provider}"),
        Scope::EachUser(tenant, None) => format!("each user of {tenant}"),
        Scope::EachUser(tenant, Some(app)) => format!("each user of {tenant}/{app}"),
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
