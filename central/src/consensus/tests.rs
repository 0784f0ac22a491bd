//! The log and the state machine against openraft's own suite, and a log that is opened again and again.

use std::path::Path;

use base::{NodeId, Revision, Role};
use central_core::State;
use openraft::entry::RaftEntry as _;
use openraft::storage::{IOFlushed, RaftLogReader as _, RaftLogStorage as _};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::type_config::TypeConfigExt as _;
use openraft::vote::RaftLeaderId as _;
use openraft::{AsyncRuntime as _, RaftTypeConfig, StorageError};
use proptest::prelude::*;
use seam::Host;
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use wire::control::NodeAddr;

use super::machine::{Machine, Outlets};
use super::runtime::HostRuntime;
use super::store::LogStore;
use super::types::{LogEntry, LogId, Place, Types, Vote};
use crate::usage::Feed;

impl Default for Place {
    fn default() -> Self {
        Self(NodeAddr {
            name: "nobody".parse().unwrap(),
            role: Role::Central,
            region: "nowhere".parse().unwrap(),
            mesh: "127.0.0.1:1".parse().unwrap(),
        })
    }
}

struct Fresh;

impl StoreBuilder<Types, LogStore, Machine, TempDir> for Fresh {
    async fn build(&self) -> Result<(TempDir, LogStore, Machine), StorageError<Types>> {
        let (host, dir) = (Host::real(), tempfile::tempdir().unwrap());
        let store = LogStore::open(&host, &dir.path().join("log"), NodeId(1)).await.unwrap();
        let (events, mut read) = mpsc::channel(1_024);
        drop(host.spawn("events", async move { while read.recv().await.is_some() {} }));
        let (applied, _) = watch::channel(Revision(0));
        let outlets = Outlets { events, applied, feed: Feed::default() };
        let machine = Machine::open(host, dir.path(), State::default(), outlets).await.unwrap();
        Ok((dir, store, machine))
    }
}

#[test]
fn the_log_and_the_state_machine_keep_openrafts_contract() {
    HostRuntime::new(1).block_on(async { Host::real().scope(Suite::test_all(Fresh)).await }).unwrap();
}

/// What a log should hold.
#[derive(Debug, Default)]
struct Model {
    vote: Option<Vote>,
    purged: Option<LogId>,
    entries: Vec<LogId>,
}

#[derive(Clone, Debug)]
enum Step {
    Append(u64),
    /// Keeps this part (of 8).
    Truncate(usize),
    /// Gives up this part (of 8).
    Purge(usize),
    Vote,
    Reopen,
}

impl Model {
    fn next(&self) -> u64 {
        self.entries.last().or(self.purged.as_ref()).map_or(0, |last| last.index + 1)
    }

    async fn step(&mut self, term: u64, step: &Step, mut store: LogStore, dir: &Path) -> LogStore {
        match step {
            Step::Append(count) => {
                let ids: Vec<_> =
                    (self.next()..self.next() + count).map(|index| log_id(term, index)).collect();
                let (done, appended) = Types::oneshot();
                let entries = ids.iter().map(|id| LogEntry::new_blank(*id));
                store.append(entries, IOFlushed::signal(done)).await.unwrap();
                appended.await.unwrap().unwrap();
                self.entries.extend(ids);
            }
            Step::Truncate(part) => {
                self.entries.truncate(self.entries.len() * part / 8);
                store.truncate_after(self.entries.last().copied().or(self.purged)).await.unwrap();
            }
            Step::Purge(part) => {
                let given_up: Vec<_> = self.entries.drain(..self.entries.len() * part / 8).collect();
                if let Some(last) = given_up.last() {
                    store.purge(*last).await.unwrap();
                    self.purged = Some(*last);
                }
            }
            Step::Vote => {
                self.vote = Some(Vote::new(term, 1));
                store.save_vote(&Vote::new(term, 1)).await.unwrap();
            }
            Step::Reopen => {
                drop(store);
                store = reopen(dir).await;
            }
        }
        store
    }

    async fn check(&self, store: &mut LogStore) {
        let state = store.get_log_state().await.unwrap();
        assert_eq!(state.last_purged_log_id, self.purged);
        assert_eq!(state.last_log_id, self.entries.last().copied().or(self.purged));
        let found = store.try_get_log_entries(..).await.unwrap();
        let found: Vec<_> = found.into_iter().map(|entry| entry.log_id).collect();
        assert_eq!(found, self.entries);
        assert_eq!(store.read_vote().await.unwrap(), self.vote);
    }
}

fn log_id(term: u64, index: u64) -> LogId {
    let leader = <Types as RaftTypeConfig>::LeaderId::new(term, 1);
    LogId::new(leader.to_committed(), index)
}

/// Opens the log once the one before has let go of it.
async fn reopen(dir: &Path) -> LogStore {
    loop {
        match LogStore::open(&Host::real(), dir, NodeId(1)).await {
            Ok(store) => return store,
            Err(locked) if locked.to_string().contains("another process") => tokio::task::yield_now().await,
            Err(other) => panic!("{other}"),
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1u64..20).prop_map(Step::Append),
        2 => (0usize..9).prop_map(Step::Truncate),
        2 => (0usize..9).prop_map(Step::Purge),
        1 => Just(Step::Vote),
        2 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_log_opened_again_holds_what_it_held(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let mut model = Model::default();
            let mut store = reopen(dir.path()).await;
            for (term, step) in (1..).zip(&steps) {
                store = model.step(term, step, store, dir.path()).await;
                model.check(&mut store).await;
            }
            drop(store);
            model.check(&mut reopen(dir.path()).await).await;
        });
    }
}
