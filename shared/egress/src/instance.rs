//! One instance of a model at run time: its state under `upstream`'s rules, its kept connections, and the guard that
//! gives a call's place back.

use std::sync::Arc;
use std::time::Duration;

use base::{Mono, Name, Usage};
use http::HeaderMap;
use seam::{Host, Lock};
use upstream::{Barred, Fault, Health, KeysOffer, Offer, Quota, Ticket};

use crate::account::{Account, KeyLease};
use crate::connection::Connection;
use crate::places::{Places, Wanted};
use crate::pool::Shared;
use crate::{Credential, Origin, Tls, Upstream};

/// After a failed dial ahead of need, the next waits this long.
const DIAL_AGAIN: Duration = Duration::from_secs(2);

/// Bound of a dial ahead of need.
const DIAL_WITHIN: Duration = Duration::from_secs(2);

/// One instance.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) spec: Upstream,
    /// Whose keys its calls are made with, if it has any.
    account: Option<Arc<Account>>,
    /// Shared with the instance as it was before a change of its configuration: calls begun then still count.
    run: Arc<Run>,
}

#[derive(Debug)]
struct Run {
    state: Lock<upstream::Instance>,
    kept: Lock<Kept>,
}

/// Connections at rest, the one used last at the end.
#[derive(Default)]
struct Kept {
    idle: Vec<Connection>,
    /// A dial ahead of need is under way, or failed a moment ago.
    not_before: Mono,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kept({})", self.idle.len())
    }
}

/// How connections are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keeping {
    /// Patience with an idle connection whose peer announced none.
    pub(crate) idle: Duration,
    /// Most idle connections.
    pub(crate) most: usize,
    /// Idle connections held ready.
    pub(crate) warm: usize,
}

impl Instance {
    pub(crate) fn new(spec: Upstream, account: Option<Arc<Account>>) -> Self {
        let state = Lock::new(upstream::Instance::new(&spec.terms));
        Self { spec, account, run: Arc::new(Run { state, kept: Lock::default() }) }
    }

    /// Whether calls under `spec` may go on over this instance's connections and state.
    pub(crate) fn is_same(&self, spec: &Upstream) -> bool {
        self.spec == *spec
    }

    /// The instance under a new `spec` for the same server: its state goes on, its connections too.
    pub(crate) fn renewed(&self, spec: Upstream, account: Option<Arc<Account>>, now: Mono) -> Self {
        self.run.state.lock().limit(&spec.terms, now);
        Self { spec, account, run: Arc::clone(&self.run) }
    }

    /// Whether `spec` is for the same server.
    pub(crate) fn is_at(&self, origin: &Origin) -> bool {
        self.spec.origin == *origin
    }

    /// What it can do for a call; `None`: nothing, with any key that did not fail it.
    ///
    /// # Errors
    /// [`Barred`]: its provider keeps every key away.
    pub(crate) fn offer(&self, wanted: Wanted<'_>, now: Mono) -> Result<Option<Offer>, Barred> {
        let offer = self.run.state.lock().offer(wanted.tokens, now);
        let (Some(account), Offer::Free { .. } | Offer::Probe) = (&self.account, offer) else {
            return Ok(Some(offer));
        };
        match account.offer(wanted.of_key(), wanted.tried.keys_of(&self.spec.name), now) {
            KeysOffer::Free => Ok(Some(offer)),
            KeysOffer::Full { until } => Ok(Some(Offer::Full { until })),
            KeysOffer::Barred(barred) => Err(barred),
            KeysOffer::None => Ok(None),
        }
    }

    pub(crate) fn is_in(&self) -> bool {
        self.run.state.lock().is_in()
    }

    pub(crate) fn outstanding(&self) -> u32 {
        self.run.state.lock().outstanding()
    }

    pub(crate) fn idle(&self) -> usize {
        self.run.kept.lock().idle.len()
    }

    /// A kept connection that its peer has not closed. The most recently used first, so that the others may age.
    pub(crate) fn reuse(&self, now: Mono, keeping: Keeping) -> Option<Connection> {
        let mut kept = self.run.kept.lock();
        while let Some(mut connection) = kept.idle.pop() {
            if connection.is_usable(now, keeping.idle) {
                if let Some(shared) = connection.share() {
                    kept.idle.push(shared);
                }
                return Some(connection);
            }
        }
        None
    }

    /// Takes back a connection whose answer was read to its end.
    pub(crate) fn keep(&self, mut connection: Connection, now: Mono, keeping: Keeping) {
        // A shared one never left.
        if connection.is_shared() || !connection.rest(now) {
            return;
        }
        let mut kept = self.run.kept.lock();
        if kept.idle.len() < keeping.most {
            kept.idle.push(connection);
        }
    }

    /// Lets other calls share a new connection, where its protocol can.
    pub(crate) fn offer_shared(&self, connection: &Connection) {
        if let Some(shared) = connection.share() {
            self.run.kept.lock().idle.push(shared);
        }
    }

    /// Closes kept connections that ended or aged; true when another should be dialled ahead of need.
    pub(crate) fn sweep(&self, now: Mono, keeping: Keeping) -> bool {
        let healthy = self.is_in();
        let mut kept = self.run.kept.lock();
        kept.idle.retain_mut(|connection| connection.is_usable(now, keeping.idle));
        let wanted = healthy && kept.idle.len() < keeping.warm && now >= kept.not_before;
        if wanted {
            kept.not_before = now + DIAL_WITHIN + DIAL_AGAIN;
        }
        wanted
    }

    /// Dials ahead of need.
    pub(crate) async fn warm(&self, host: &Host, tls: Option<&Tls>) {
        match self.dial(host, tls, DIAL_WITHIN).await {
            Ok(mut connection) => {
                let now = host.now();
                connection.begin_rest(now);
                let mut kept = self.run.kept.lock();
                kept.idle.insert(0, connection);
                kept.not_before = now;
            }
            Err(_fault) => {
                tracing::debug!(upstream = %self.spec.name, model = %self.spec.model, "cannot connect ahead of need");
                self.run.kept.lock().not_before = host.now() + DIAL_AGAIN;
            }
        }
    }

    /// A new connection, within `limit`.
    pub(crate) async fn dial(
        &self,
        host: &Host,
        tls: Option<&Tls>,
        limit: Duration,
    ) -> Result<Connection, Fault> {
        let origin = &self.spec.origin;
        let dial = async {
            let stream = host.connect(origin.host(), origin.port()).await.map_err(|error| {
                tracing::debug!(upstream = %self.spec.name, %error, "cannot connect");
                Fault::Connect
            })?;
            let (stream, h2) = match (origin.is_tls(), tls) {
                (false, _) => (stream, false),
                (true, Some(tls)) => tls.secure(stream, origin.host()).await.map_err(|error| {
                    tracing::debug!(upstream = %self.spec.name, %error, "cannot secure the connection");
                    Fault::Connect
                })?,
                (true, None) => return Err(Fault::Connect),
            };
            Connection::open(host, stream, h2).await
        };
        host.timeout(limit, dial).await.unwrap_or(Err(Fault::Connect))
    }
}

/// A call's place at an instance. Dropping it gives the place back; unless told otherwise it says nothing about the
/// instance, as when the caller left.
#[derive(Debug)]
pub(crate) struct Lease {
    instance: Arc<Instance>,
    line: Arc<Places>,
    shared: Arc<Shared>,
    ticket: Ticket,
    key: Option<KeyLease>,
    health: Health,
}

impl Lease {
    /// Takes a place; `None` when the offer changed since it was made.
    pub(crate) fn take(
        instance: &Arc<Instance>,
        line: &Arc<Places>,
        (shared, now): (&Arc<Shared>, Mono),
        wanted: Wanted<'_>,
    ) -> Option<Self> {
        let (tokens, draw) = (wanted.tokens, draw(now));
        let ticket = instance.run.state.lock().take(tokens, now, draw)?;
        let key = match &instance.account {
            None => None,
            Some(account) => {
                match account.take(wanted.of_key(), wanted.tried.keys_of(&instance.spec.name), now, draw) {
                    Some(key) => Some(key),
                    None => {
                        let mut state = instance.run.state.lock();
                        let mut ticket = ticket;
                        state.settle(&mut ticket, 0);
                        state.end(&ticket, Health::Unknown, now, draw);
                        return None;
                    }
                }
            }
        };
        let (instance, line, shared) = (Arc::clone(instance), Arc::clone(line), Arc::clone(shared));
        Some(Self { instance, line, shared, ticket, key, health: Health::Unknown })
    }

    pub(crate) const fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// The name of the key that the call is made with.
    pub(crate) fn key(&self) -> Option<&Name> {
        self.key.as_ref().map(KeyLease::name)
    }

    /// What makes the call known to its upstream.
    pub(crate) fn credential(&self) -> Option<&Credential> {
        self.key.as_ref().map(KeyLease::credential)
    }

    /// The head of an answer is here: its headers may tell what is left of the key's limits.
    pub(crate) fn learn(&self, headers: &HeaderMap) {
        if let Some(key) = &self.key {
            let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
            let host = &self.shared.host;
            key.learn(&Quota::read(text, host.wall()), host.now(), &self.shared.options.keys);
        }
    }

    /// An answer begins: the instance is healthy, whatever becomes of the answer's rest.
    pub(crate) fn answered(&self, now: Mono) {
        self.instance.run.state.lock().answered(&self.ticket, now);
        if let Some(key) = &self.key {
            key.answered();
        }
    }

    /// What the call used, where that is known: what it was thought to use at most counts until then.
    pub(crate) fn settle(&mut self, usage: Option<Usage>) {
        if let Some(usage) = usage {
            let tokens = usage.input.saturating_add(usage.output);
            self.instance.run.state.lock().settle(&mut self.ticket, tokens.0);
            if let Some(key) = &mut self.key {
                key.settle(usage);
            }
        }
    }

    /// What the call's end says about the instance, or about the key.
    pub(crate) const fn judge(&mut self, health: Health) {
        self.health = health;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let now = self.shared.host.now();
        let of_key = self.key.is_some() && self.health.is_of_key();
        let mut state = self.instance.run.state.lock();
        let before = state.is_in();
        state.end(&self.ticket, if of_key { Health::Unknown } else { self.health }, now, draw(now));
        let after = state.is_in();
        drop(state);
        match &self.key {
            None => self.shared.serve_line(&self.line),
            Some(key) => {
                key.end(self.health, now, draw(now), &self.shared.options.keys);
                key.account().lines().iter().for_each(|line| self.shared.serve_line(line));
            }
        }
        let spec = &self.instance.spec;
        if before && !after {
            tracing::warn!(upstream = %spec.name, model = %spec.model, "instance is out");
        }
    }
}

/// A number to spread waits with; the low digits of a nanosecond clock serve (splitmix64).
const fn draw(now: Mono) -> u64 {
    let mixed = now.as_nanos().wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// What an operator may know of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceStatus {
    /// Its model.
    pub model: base::ModelName,
    /// Its name.
    pub name: Name,
    /// Whether calls are given to it.
    pub serving: bool,
    /// Calls it serves.
    pub outstanding: u32,
    /// Connections at rest.
    pub idle: usize,
}
