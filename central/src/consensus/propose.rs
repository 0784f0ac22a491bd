//! Puts commands into the log: at the leader many at a time, from any other node through the leader.

use std::sync::Arc;
use std::time::Duration;

use openraft::error::ClientWriteError;
use openraft::impls::ProgressResponder;
use seam::{Host, Late, Lock};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use central_core::{Command, Entry, Refusal, Reply};

use super::clock::LogClock;
use super::protocol::{LeaderAnswer, LeaderQuestion};
use super::store::StorageState;
use super::types::{Proposal, Raft};
use super::walls::Walls;
use super::{Consensus, Leader, PAUSE};

/// Entries are at least this far apart; what is proposed meanwhile shares one.
const TICK: Duration = Duration::from_millis(10);
/// An entry is not made longer once it holds this many commands.
const MAX_COMMANDS: usize = 1_024;
/// An entry of several commands is split when it is longer than this, in bytes.
const SPLIT_ABOVE: usize = 1024 * 1024;
/// Longest entry, in bytes.
const MAX_ENTRY: usize = 12 * 1024 * 1024;
/// Proposals that may wait for the next entry.
pub(super) const MAX_WAITING: usize = 4_096;

/// Why a command has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ProposeError {
    /// No leader was found in time, or it could not reach a majority. The command is not in the log.
    #[error("central has no leader at the moment")]
    NoLeader,
    /// This node does not lead. The command is not in the log.
    #[error("this node does not lead")]
    NotLeader,
    /// Contact was lost on the way: the command may or may not take effect.
    #[error("it is not known whether the change takes effect: {0}")]
    Unknown(String),
    /// The leader's disk has no room. The command is not in the log.
    #[error("the disk under central's log is full")]
    Full,
    /// The leader has more to do than it can take. The command is not in the log.
    #[error("central is overloaded")]
    Overloaded,
    /// The command is larger than an entry may be.
    #[error("the change is too large for one log entry ({0} bytes)")]
    TooLarge(usize),
    /// The node has stopped.
    #[error("this central node has stopped: {0}")]
    Stopped(String),
}

impl ProposeError {
    /// Whether the same command may be sent again without a second effect.
    #[must_use]
    pub const fn is_certain(&self) -> bool {
        !matches!(self, Self::Unknown(_))
    }
}

/// A command that waits for its entry.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) command: Command,
    pub(super) done: oneshot::Sender<Result<Reply, ProposeError>>,
}

impl Consensus {
    /// Puts a command into the log and gives back its answer once the entry is committed and applied, at the leader.
    /// Looks for the leader for a while when there is none, and sends a command again whose fate is unknown when a
    /// second time does no harm.
    ///
    /// # Errors
    /// [`ProposeError`]; only after [`ProposeError::Unknown`] may the command still take effect.
    pub async fn propose(&self, command: Command) -> Result<Reply, ProposeError> {
        if matches!(command, Command::Batch(_)) {
            return Ok(Reply::Refused(Refusal::Nested));
        }
        let deadline = self.host().now() + self.patience();
        loop {
            let left = deadline.since(self.host().now());
            let tried = match self.leader() {
                Some(Leader::Here) => self.propose_here(command.clone(), left).await,
                Some(Leader::At(id, node)) => {
                    let question = LeaderQuestion::Propose(Box::new(command.clone()));
                    match self.ask_leader(id, &node, question, left).await {
                        Ok(LeaderAnswer::Proposed(answer)) => answer,
                        Ok(_other) => {
                            Err(ProposeError::Unknown("the leader answered another question".into()))
                        }
                        Err(unasked) => unasked.into(),
                    }
                }
                None => Err(ProposeError::NoLeader),
            };
            let again = match &tried {
                Err(ProposeError::NoLeader | ProposeError::NotLeader) => true,
                Err(ProposeError::Unknown(_)) => is_idempotent(&command),
                _decided => false,
            };
            match tried {
                Err(_failed) if again && self.host().now() < deadline => self.host().sleep(PAUSE).await,
                Err(ProposeError::NotLeader) => return Err(ProposeError::NoLeader),
                done => return done,
            }
        }
    }

    /// Puts a command into the log if this node leads, and waits for its answer `within` that time: a leader without a
    /// majority, or without room for the vote that replaces it, has none.
    pub(super) async fn propose_here(
        &self,
        command: Command,
        within: Duration,
    ) -> Result<Reply, ProposeError> {
        match &*self.storage().borrow() {
            StorageState::Good => {}
            StorageState::Full => return Err(ProposeError::Full),
            StorageState::Failed(why) => return Err(ProposeError::Stopped(why.clone())),
        }
        let (done, answer) = oneshot::channel();
        self.proposals().try_send(Waiting { command, done }).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => ProposeError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => ProposeError::Stopped("it is closing".to_owned()),
        })?;
        match self.host().timeout(within, answer).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(_dropped)) => Err(ProposeError::Unknown("the node is closing".to_owned())),
            Err(Late) => Err(ProposeError::Unknown("it was not committed in time".to_owned())),
        }
    }
}

/// Makes entries of what waits.
#[derive(Debug)]
pub(super) struct Batcher {
    pub(super) host: Host,
    pub(super) raft: Raft,
    pub(super) clock: LogClock,
    pub(super) walls: Arc<Lock<Walls>>,
    pub(super) storage: watch::Receiver<StorageState>,
}

impl Batcher {
    pub(super) async fn run(self, mut queue: mpsc::Receiver<Waiting>) {
        let mut last = self.host.now();
        let mut waiting = Vec::new();
        while queue.recv_many(&mut waiting, MAX_COMMANDS).await > 0 {
            if self.host.now() < last + TICK {
                self.host.sleep_until(last + TICK).await;
            }
            while waiting.len() < MAX_COMMANDS
                && let Ok(more) = queue.try_recv()
            {
                waiting.push(more);
            }
            last = self.host.now();
            self.submit(std::mem::take(&mut waiting)).await;
        }
    }

    /// Makes one entry, or several when one would be too long.
    async fn submit(&self, waiting: Vec<Waiting>) {
        let mut parts = vec![waiting];
        while let Some(mut part) = parts.pop() {
            match self.encode(&mut part) {
                Ok(proposal) if proposal.len() > SPLIT_ABOVE && part.len() > 1 => {
                    let later = part.split_off(part.len() / 2);
                    parts.push(later);
                    parts.push(part);
                }
                Ok(proposal) if proposal.len() <= MAX_ENTRY => self.write(part, proposal).await,
                Ok(proposal) => refuse(part, &ProposeError::TooLarge(proposal.len())),
                Err(error) => refuse(part, &error),
            }
        }
    }

    /// Encodes the commands as one entry, stamped with the members' wall clocks and the log's.
    fn encode(&self, part: &mut [Waiting]) -> Result<Proposal, ProposeError> {
        let mut commands: Vec<Command> = part.iter_mut().map(|waiting| take(&mut waiting.command)).collect();
        let single = commands.len() == 1;
        let command = match commands.pop() {
            Some(only) if single => only,
            Some(last) => {
                commands.push(last);
                Command::Batch(commands)
            }
            None => Command::Batch(commands),
        };
        let entry = self.entry(command);
        let encoded = Proposal::new(&entry);
        put_back(part, entry.command);
        encoded.map_err(|error| {
            tracing::warn!(%error, "a command cannot be encoded");
            ProposeError::TooLarge(usize::MAX)
        })
    }

    fn entry(&self, command: Command) -> Entry {
        let now = self.host.now();
        let at = self.walls.lock().at(now, self.host.wall());
        Entry { at, clock: self.clock.now(now), command }
    }

    /// Writes an entry, in the order of calls, and sees to its answers without waiting for them.
    async fn write(&self, part: Vec<Waiting>, proposal: Proposal) {
        if *self.storage.borrow() == StorageState::Full {
            refuse(part, &ProposeError::Full);
            return;
        }
        let (responder, answer) = ProgressResponder::complete_only();
        if let Err(fatal) = self.raft.client_write_ff(proposal, Some(responder)).await {
            refuse(part, &ProposeError::Stopped(fatal.to_string()));
            return;
        }
        drop(self.host.spawn("raft-proposal", async move {
            match answer.await {
                Ok(Ok(written)) => distribute(part, written.data),
                Ok(Err(error)) => refuse(part, &refusal(&error)),
                Err(_stopped) => refuse(part, &ProposeError::Unknown("the node stopped".to_owned())),
            }
        }));
    }
}

/// Whether a command that took effect once changes nothing when it comes again.
const fn is_idempotent(command: &Command) -> bool {
    match command {
        Command::Register(_)
        | Command::Reports(_)
        | Command::Receipts { .. }
        | Command::Final { .. }
        | Command::Bye { .. }
        | Command::RaiseLevel { .. }
        | Command::SetMembers(_)
        | Command::Joined(_)
        | Command::Decide(_)
        | Command::Ship(_) => true,
        // The second of two equal changes is a conflict, the second of two rollbacks another epoch.
        Command::Batch(_) | Command::ChangeCatalog(_) | Command::Rollback { .. } => false,
    }
}

fn take(command: &mut Command) -> Command {
    std::mem::replace(command, Command::Batch(Vec::new()))
}

fn put_back(part: &mut [Waiting], command: Command) {
    match command {
        Command::Batch(commands) => {
            for (waiting, command) in part.iter_mut().zip(commands) {
                waiting.command = command;
            }
        }
        single => {
            if let [only] = part {
                only.command = single;
            }
        }
    }
}

fn refusal(error: &ClientWriteError<super::types::Types>) -> ProposeError {
    match error {
        ClientWriteError::ForwardToLeader(_) => ProposeError::NotLeader,
        ClientWriteError::LogEntryDiscarded(_) => {
            ProposeError::Unknown("leadership changed while the entry was under way".to_owned())
        }
        other => ProposeError::Unknown(other.to_string()),
    }
}

/// Who proposed may be gone.
fn refuse(part: Vec<Waiting>, why: &ProposeError) {
    for waiting in part {
        drop(waiting.done.send(Err(why.clone())));
    }
}

fn distribute(part: Vec<Waiting>, reply: Option<Reply>) {
    let replies = match reply {
        Some(Reply::Batch(replies)) => replies,
        Some(single) => vec![single],
        None => Vec::new(),
    };
    if replies.len() != part.len() {
        tracing::error!(asked = part.len(), answered = replies.len(), "an entry was answered in part");
    }
    let mut replies = replies.into_iter();
    for waiting in part {
        let missing = || ProposeError::Unknown("the entry gave no answer".to_owned());
        drop(waiting.done.send(replies.next().ok_or_else(missing)));
    }
}
