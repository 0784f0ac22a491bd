//! Receipts for a `ClickHouse` server: the leader gives it what the usage store holds, each receipt once.
//!
//! The usage store is the spool. How far it was given is in the log, and so is the batch under way before it is sent
//! ([`Shipment`]): a batch is the receipts between two places, which are the same at every node, so that whoever leads next
//! sends the same rows under the same name. A batch whose fate is unknown is looked for before it is sent again, and rows
//! that came twice all the same are one to whoever asks with `FINAL`. One batch is in flight; while the server is away, receipts
//! wait in the store, and are kept somewhat longer than otherwise.

mod client;
mod row;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use base::Era;
use central_core::{Command, Reply, Shipment, State};
use egress::{Origin, Tls};
use seam::{Bound, Host, Stop};
use tokio::sync::watch;
use upstream::Backoff;
use usage_store::{Bounds, Parcel};

use super::{Usage, UsageError};
use crate::consensus::{Consensus, ProposeError};
use client::{Client, Denied};

/// The most of one batch.
const BATCH: Bounds = Bounds { receipts: 5_000, bytes: 8 * 1024 * 1024 };
/// How long receipts gather where they do not fill a batch.
const GATHER: Duration = Duration::from_secs(5);
/// Waits after failures.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(2), cap: Duration::from_secs(60) };
/// Between two looks at whether this node leads.
const LOOK: Duration = Duration::from_secs(1);
/// The most receipts that are counted as waiting.
const COUNTED: u64 = 1_000_000;

/// Where receipts go, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClickHouse {
    /// The server's HTTP interface.
    pub url: Origin,
    /// The database, which must be there.
    pub database: String,
    /// The table, which is made when it is not there.
    pub table: String,
    /// Who we are there; `None`: the default user.
    pub user: Option<String>,
    /// The file of the user's password.
    pub password_file: Option<PathBuf>,
    /// Authorities to trust beside the public ones, PEM.
    pub authorities: Option<PathBuf>,
    /// How much longer than others receipts are kept that were not taken yet.
    pub keep_longer: Duration,
}

/// How it stands, at the node that leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shipped {
    /// Receipts that wait, counted up to a million.
    pub(crate) behind: u64,
    /// Why the last attempt failed.
    pub(crate) failing: Option<String>,
    /// Receipts that were taken since the start.
    pub(crate) taken: u64,
    /// Log entries whose receipts were forgotten before they were taken, since the start.
    pub(crate) lost: u64,
}

/// Why receipts were not taken; all of it is tried again.
#[derive(Debug, thiserror::Error)]
enum Undone {
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error("the log does not say how far receipts were taken: {0}")]
    Log(#[from] ProposeError),
    #[error("another node went on from here")]
    Overtaken,
}

/// What one step came to.
enum Step {
    /// Nothing waits.
    Nothing,
    /// A batch was taken; whether it was full.
    Taken { full: bool },
}

/// Gives receipts to a server while this node leads.
pub(crate) struct Shipper {
    host: Host,
    consensus: Consensus,
    usage: Usage,
    client: Client,
    told: watch::Sender<Shipped>,
    /// The end of the batch that this node put into the log and has not sent.
    unsent: Option<u64>,
    ready: bool,
}

impl Shipper {
    /// What gives receipts to the server of `options`, and how it stands.
    fn new(
        host: &Host,
        consensus: &Consensus,
        usage: &Usage,
        (options, tls): (ClickHouse, Option<Tls>),
    ) -> (Self, watch::Receiver<Shipped>) {
        let (told, standing) = watch::channel(Shipped::default());
        let client = Client::new(host, options, tls);
        let (consensus, usage) = (consensus.clone(), usage.clone());
        (Self { host: host.clone(), consensus, usage, client, told, unsent: None, ready: false }, standing)
    }

    /// Starts it; it ends at `stop`.
    pub(crate) fn start(
        host: &Host,
        (consensus, usage): (&Consensus, &Usage),
        sink: (ClickHouse, Option<Tls>),
        stop: &Stop,
    ) -> (Bound<()>, watch::Receiver<Shipped>) {
        let (shipper, standing) = Self::new(host, consensus, usage, sink);
        (host.spawn("clickhouse", shipper.run(stop.clone())).bound(), standing)
    }

    async fn run(mut self, stop: Stop) {
        let mut round = 0;
        while !stop.is_wanted() {
            let pause = if self.consensus.leads() { self.turn(&mut round).await } else { self.rest() };
            tokio::select! {
                biased;
                () = stop.wanted() => {}
                () = self.host.sleep(pause) => {}
            }
        }
    }

    /// Another node leads.
    fn rest(&mut self) -> Duration {
        (self.unsent, self.ready) = (None, false);
        self.told.send_modify(|told| (told.behind, told.failing) = (0, None));
        LOOK
    }

    async fn turn(&mut self, round: &mut u32) -> Duration {
        let stepped = self.step().await;
        self.count().await;
        match stepped {
            Ok(step) => {
                *round = 0;
                if self.told.borrow().failing.is_some() {
                    tracing::info!("ClickHouse takes receipts again");
                }
                self.told.send_modify(|told| told.failing = None);
                if matches!(step, Step::Taken { full: true }) { Duration::ZERO } else { GATHER }
            }
            Err(Undone::Overtaken) => LOOK,
            Err(why) => {
                if self.told.borrow().failing.is_none() {
                    tracing::warn!(%why, "ClickHouse takes no receipts; they wait in the usage store");
                }
                self.told.send_modify(|told| told.failing = Some(why.to_string()));
                *round = round.saturating_add(1);
                BACKOFF.wait(round.saturating_sub(1), self.host.random_u64())
            }
        }
    }

    async fn step(&mut self) -> Result<Step, Undone> {
        let (shipment, era) = self.consensus.read(|state: &State| (state.shipment(), state.era()));
        let parcel = self.parcel(&shipment).await?;
        if self.forgotten(&shipment, &parcel).await? {
            return Ok(Step::Taken { full: true });
        }
        if parcel.receipts.is_empty() && !shipment.is_open() {
            return Ok(Step::Nothing);
        }
        if !shipment.is_open() {
            self.log(Shipment { after: parcel.after, upto: parcel.upto }).await?;
            self.unsent = Some(parcel.upto);
        }
        self.send(era, &parcel).await?;
        self.log(Shipment { after: parcel.upto, upto: parcel.upto }).await?;
        let count = parcel.receipts.len();
        self.told.send_modify(|told| told.taken = told.taken.saturating_add(count as u64));
        Ok(Step::Taken { full: count >= BATCH.receipts })
    }

    /// The batch under way, or else the next one.
    async fn parcel(&self, shipment: &Shipment) -> Result<Parcel, UsageError> {
        self.usage.reach(None).await?;
        let (after, upto) = match shipment.is_open() {
            true => (shipment.after, Some(shipment.upto)),
            false => (shipment.upto, None),
        };
        self.usage.look(move |view| view.parcel(after, upto, BATCH)).await
    }

    /// Passes over what the store has forgotten, and tells so.
    async fn forgotten(&self, shipment: &Shipment, parcel: &Parcel) -> Result<bool, Undone> {
        if parcel.forgotten <= parcel.after {
            return Ok(false);
        }
        let next = parcel.forgotten.max(shipment.upto);
        self.log(Shipment { after: next, upto: next }).await?;
        let entries =
            usage_store::entry(parcel.forgotten).0.saturating_sub(usage_store::entry(parcel.after).0);
        if *shipment == Shipment::default() {
            tracing::info!("ClickHouse gets the receipts that are still kept; older ones are forgotten");
        } else {
            tracing::error!(entries, "receipts were forgotten before ClickHouse took them");
            self.told.send_modify(|told| told.lost = told.lost.saturating_add(entries));
        }
        Ok(true)
    }

    /// Sends a batch, unless it is there already. What this node did not put into the log just now may be.
    async fn send(&mut self, era: Era, parcel: &Parcel) -> Result<(), Undone> {
        if !self.ready {
            self.client.prepare().await?;
            self.ready = true;
        }
        let is_new = self.unsent.take() == Some(parcel.upto);
        if is_new || self.client.count(era, parcel).await? < parcel.receipts.len() as u64 {
            self.client.insert(era, parcel).await?;
        }
        Ok(())
    }

    async fn log(&self, next: Shipment) -> Result<(), Undone> {
        match self.consensus.propose(Command::Ship(next)).await? {
            Reply::Done => Ok(()),
            _refused => Err(Undone::Overtaken),
        }
    }

    async fn count(&self) {
        let after = self.consensus.read(|state: &State| state.shipment().after);
        let counted = self.usage.look(move |view| view.behind(after, COUNTED)).await;
        match counted {
            Ok(behind) => self.told.send_modify(|told| told.behind = behind),
            Err(error) => tracing::debug!(%error, "receipts that wait for ClickHouse cannot be counted"),
        }
    }
}
