//! Keeps the purse: writes its records and receipts to disk in order, and lets its wallet measure time.
//!
//! A disk without room stops strict calls, is said in the log, and is tried again until it has room. A disk that fails
//! ends the node: what it holds can no longer be trusted to grow.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use edge_core::wallet::TICK;
use seam::Stop;

use super::{Purse, StorageError};
use crate::journal::Journal;
use crate::spool::SpoolLog;

/// Pause before a full disk is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// The purse's connection to disk and time.
#[derive(Debug)]
pub struct Keeper {
    purse: Purse,
    journal: Journal,
    log: SpoolLog,
}

impl Keeper {
    pub(super) const fn new(purse: Purse, journal: Journal, log: SpoolLog) -> Self {
        Self { purse, journal, log }
    }

    /// Keeps the purse until asked to stop; then writes what waits. Stop it after all calls have settled.
    ///
    /// # Errors
    /// [`StorageError`] when a disk failed; the node must end.
    pub async fn run(self, stop: Stop) -> Result<(), StorageError> {
        let Self { purse, mut journal, mut log } = self;
        let result = tokio::select! {
            biased;
            ended = async { tokio::try_join!(biased; keep_journal(&purse, &mut journal, &stop), keep_spool(&purse, &mut log, &stop)) } => {
                ended.map(|((), ())| ())
            }
            () = tick(&purse) => Ok(()),
        };
        if let Err(error) = &result {
            tracing::error!(%error, "the edge's storage failed; it cannot account for calls any more");
        }
        journal.close().await;
        log.close().await;
        result
    }
}

async fn tick(purse: &Purse) {
    let host = &purse.shared.host;
    let mut next = host.now() + TICK;
    loop {
        host.sleep_until(next).await;
        let now = host.now();
        purse.change(|state| state.wallet.tick(now));
        purse.shared.link.notify_one();
        next = next.max(now) + TICK;
    }
}

async fn keep_journal(purse: &Purse, journal: &mut Journal, stop: &Stop) -> Result<(), StorageError> {
    let full = &purse.shared.journal_full;
    loop {
        let leaving = stop.is_wanted();
        let records = purse.change(|state| {
            if leaving {
                state.wallet.rest();
            }
            state.wallet.records()
        });
        if records.is_empty() {
            if leaving {
                return Ok(());
            }
            wait(&purse.shared.journal, stop).await;
            continue;
        }
        let last = loop {
            match journal.write(&records).await {
                Ok(last) => break last,
                Err(error) if error.is_full() && !stop.is_wanted() => pause(purse, full, "journal").await,
                Err(error) => return Err(error),
            }
        };
        has_room(full, "journal");
        purse.change(|state| {
            for record in &records {
                state.wallet.written(record);
            }
        });
        if journal.is_long() {
            let image = purse.shared.state.lock().wallet.image();
            match journal.rewrite(last, &image).await {
                Ok(()) => {}
                // Tried again after the next write.
                Err(error) if error.is_full() => {}
                Err(error) => return Err(error),
            }
        }
    }
}

async fn keep_spool(purse: &Purse, log: &mut SpoolLog, stop: &Stop) -> Result<(), StorageError> {
    let full = &purse.shared.spool_full;
    loop {
        let entries = purse.shared.state.lock().spool.take_pending(SpoolLog::batch());
        if entries.is_empty() {
            if stop.is_wanted() {
                return Ok(());
            }
            wait(&purse.shared.spool, stop).await;
            continue;
        }
        let floor = loop {
            match log.write(&entries).await {
                Ok(floor) => break floor,
                Err(error) if error.is_full() && !stop.is_wanted() => pause(purse, full, "spool").await,
                Err(error) => return Err(error),
            }
        };
        has_room(full, "spool");
        purse.change(|state| state.spool.written(entries.len(), floor));
        purse.shared.link.notify_one();
        if log.is_long() {
            purge(purse, log).await?;
        }
    }
}

async fn purge(purse: &Purse, log: &mut SpoolLog) -> Result<(), StorageError> {
    let (floor, image) = {
        let state = purse.shared.state.lock();
        (state.spool.floor(), state.spool.image())
    };
    let Some(floor) = floor else { return Ok(()) };
    match log.purge(floor, &image).await {
        Ok(()) => purse.change(|state| state.spool.purged(floor)),
        Err(error) if error.is_full() => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

async fn wait(work: &tokio::sync::Notify, stop: &Stop) {
    tokio::select! {
        biased;
        () = work.notified() => {}
        () = stop.wanted() => {}
    }
}

async fn pause(purse: &Purse, full: &AtomicBool, log: &'static str) {
    if !full.swap(true, Ordering::Relaxed) {
        tracing::error!(log, "no room on disk: strict calls are refused until there is");
    }
    purse.shared.host.sleep(RETRY).await;
}

fn has_room(full: &AtomicBool, log: &'static str) {
    if full.swap(false, Ordering::Relaxed) {
        tracing::info!(log, "the disk has room again: strict calls are served");
    }
}
