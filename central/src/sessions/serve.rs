//! One control session, from hello to its end.

use std::time::Duration;

use base::Name;
use bytes::Bytes;
use central_core::{Command, Effect, Entry, LogMs, Registration, Reply, State};
use mesh::{Connection, MeshError, Receiver, Sender};
use seam::{Bound, Late};
use tokio::sync::mpsc;
use wire::control::{Hello, ToCentral, ToEdge};
use wire::frame::Kind;

use super::table::{Newcomer, Outgoing};
use super::{HELLO_WITHIN, QUEUE, Sessions, encoded, unavailable};

/// Batches of receipts and last words of one edge that may wait for the log. More are dropped: the edge keeps what was
/// not acknowledged and sends it again.
const SETTLEMENTS: usize = 8;

/// How long a session's last message may take to reach the edge.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a node that drains serves no session.
const STOPPING: &str = "this central node is stopping";

/// Why a session ended, in words for the log.
type End = String;

/// What a session needs while it lasts; giving it up detaches the edge.
struct Live {
    sessions: Sessions,
    edge: Name,
    boot: u64,
    serial: u64,
    settlements: mpsc::Sender<Command>,
    _settler: Bound<()>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.sessions.shared.table.lock().detach(&self.edge, self.boot, self.serial);
    }
}

impl Sessions {
    /// Serves the control session that an edge opened, until it ends.
    pub(crate) async fn serve(&self, connection: &Connection, mut sender: Sender, mut receiver: Receiver) {
        let edge = connection.peer().node.clone();
        let hello = match self.hello(&mut receiver).await {
            Ok(hello) => hello,
            Err(why) => return tracing::warn!(%edge, %why, "an edge opened a session without a hello"),
        };
        let elsewhere = match (self.shared.stop.is_wanted(), *self.shared.current.borrow()) {
            (true, _current) => Some(STOPPING),
            (false, false) => Some("this central node has no contact with a majority"),
            (false, true) => None,
        };
        if let Some(why) = elsewhere {
            tracing::debug!(%edge, why, "an edge is sent to another central node");
            return refuse(&mut sender, why).await;
        }
        sender.set_priority(1);
        let (live, outgoing) = self.attach(connection, &hello);
        let writer = self.shared.host.spawn("session-write", write(sender, outgoing)).bound();
        let ended = self.run(&live, connection, hello, receiver, writer).await;
        tracing::info!(%edge, boot = live.boot, why = %ended, "an edge's session ended");
    }

    async fn hello(&self, receiver: &mut Receiver) -> Result<Hello, String> {
        let first = receiver.expect::<ToCentral>(Kind::TO_CENTRAL);
        match self.shared.host.timeout(HELLO_WITHIN, first).await {
            Ok(Ok(ToCentral::Hello(hello))) => Ok(hello),
            Ok(Ok(_other)) => Err("its first message is another".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(Late) => Err("nothing came in time".to_owned()),
        }
    }

    fn attach(&self, connection: &Connection, hello: &Hello) -> (Live, mpsc::Receiver<Outgoing>) {
        let peer = connection.peer();
        let (queue, outgoing) = mpsc::channel(QUEUE);
        let who = Newcomer {
            edge: peer.node.clone(),
            region: peer.region.clone(),
            boot: hello.boot,
            have: hello.have,
        };
        let serial = self.shared.table.lock().attach(who, queue);
        let (settlements, queue) = mpsc::channel(SETTLEMENTS);
        let settler = self.shared.host.spawn("session-settle", settle(self.clone(), queue)).bound();
        let (edge, boot) = (peer.node.clone(), hello.boot);
        let live = Live { sessions: self.clone(), edge, boot, serial, settlements, _settler: settler };
        (live, outgoing)
    }

    async fn run(
        &self,
        live: &Live,
        connection: &Connection,
        hello: Hello,
        receiver: Receiver,
        mut writer: Bound<End>,
    ) -> End {
        let registration =
            Registration { edge: live.edge.clone(), region: connection.peer().region.clone(), hello };
        let mut reading = std::pin::pin!(read(live, receiver));
        // An edge that goes before it is registered takes the proposal with it: a late one would supersede a successor.
        tokio::select! {
            biased;
            end = &mut reading => return end,
            () = self.register(live, registration) => {}
        }
        tokio::select! {
            biased;
            () = self.shared.stop.wanted() => {
                self.give_up(live, STOPPING);
                ended(writer.await)
            }
            end = &mut writer => ended(end),
            end = reading => end,
        }
    }

    async fn register(&self, live: &Live, registration: Registration) {
        match self.shared.consensus.propose(Command::Register(registration)).await {
            Ok(Reply::Registered(incarnation)) => {
                tracing::info!(edge = %live.edge, boot = live.boot, %incarnation, "an edge is attached");
            }
            // The effect of the same entry carries the last word.
            Ok(_superseded) => {}
            Err(error) => self.give_up(live, &error.to_string()),
        }
    }

    /// Ends a session with a word to its edge.
    fn give_up(&self, live: &Live, why: &str) {
        if let Some(last) = encoded(&unavailable(why)) {
            self.shared.table.lock().end(&live.edge, live.boot, last);
        }
    }
}

fn ended(end: Result<End, seam::Gone>) -> End {
    end.unwrap_or_else(|_gone| "its writer broke off".to_owned())
}

async fn refuse(sender: &mut Sender, why: &str) {
    let told = sender.send(Kind::TO_EDGE, &unavailable(why)).await.and_then(|()| sender.finish());
    if told.is_ok() {
        sender.stopped().await;
    }
}

/// Hands messages to the edge in order.
async fn write(mut sender: Sender, mut outgoing: mpsc::Receiver<Outgoing>) -> End {
    while let Some(next) = outgoing.recv().await {
        let sent = match next {
            Outgoing::Message(payload) => sender.send_frame(Kind::TO_EDGE, payload).await,
            Outgoing::Last(payload) => {
                return match say_last(&mut sender, payload).await {
                    Ok(()) => "it was told to go".to_owned(),
                    Err(error) => error.to_string(),
                };
            }
        };
        if let Err(error) = sent {
            return error.to_string();
        }
    }
    "another session took its place, or it did not read".to_owned()
}

async fn say_last(sender: &mut Sender, payload: Bytes) -> Result<(), MeshError> {
    sender.send_frame(Kind::TO_EDGE, payload).await?;
    sender.finish()?;
    let read = sender.stopped();
    if let Some(host) = seam::current() {
        // An edge that does not read its last message learns from the stream's end.
        let _read = host.timeout(LAST_WORDS, read).await;
    }
    Ok(())
}

/// Takes what the edge says until it says no more.
async fn read(live: &Live, mut receiver: Receiver) -> End {
    loop {
        let said = match receiver.recv().await {
            Ok(Some(frame)) if frame.kind == Kind::TO_CENTRAL => frame.decode::<ToCentral>(),
            Ok(Some(frame)) if frame.kind == Kind::MISSING_TOKENIZERS => match frame.decode() {
                Ok(missing) => {
                    let note = |told: &mut super::Attached| told.missing = missing;
                    live.sessions.shared.table.lock().told(&live.edge, live.boot, note);
                    continue;
                }
                Err(error) => return error.to_string(),
            },
            Ok(Some(_other)) => continue,
            Ok(None) => return "the edge closed it".to_owned(),
            Err(error) => return error.to_string(),
        };
        match said {
            Ok(ToCentral::Bye) => return bye(live).await,
            #[cfg(feature = "next-level")]
            Ok(ToCentral::HealthNext { .. })
                if mesh::level(&live.sessions.shared.host) < wire::NEXT_LEVEL =>
            {
                return "a message of a level that this node does not know".to_owned();
            }
            Ok(said) => heard(live, said),
            Err(error) => return error.to_string(),
        }
    }
}

fn heard(live: &Live, said: ToCentral) {
    let sessions = &live.sessions.shared;
    match said {
        ToCentral::Report(report) => {
            if base::mutant!(GrantBeforeCommit) {
                grant_early(live, &report);
            }
            sessions.reports.take(&live.edge, report);
        }
        ToCentral::Receipts(batch) => settlement(live, Command::Receipts { edge: live.edge.clone(), batch }),
        ToCentral::Final(report) => settlement(live, Command::Final { edge: live.edge.clone(), report }),
        ToCentral::Applied { stamp, epoch } => {
            let note = |told: &mut super::Attached| told.applied = Some((stamp, epoch));
            sessions.table.lock().told(&live.edge, live.boot, note);
        }
        ToCentral::Health(health) => {
            sessions.table.lock().told(&live.edge, live.boot, |told| told.health = health);
        }
        #[cfg(feature = "next-level")]
        ToCentral::HealthNext { health, running_ms: _ } => {
            sessions.table.lock().told(&live.edge, live.boot, |told| told.health = health);
        }
        ToCentral::Hello(_again) => tracing::debug!(edge = %live.edge, "an edge said hello twice"),
        // Its reader ends the session.
        ToCentral::Bye => {}
    }
}

/// The planted fault: the edge hears what this node thinks that its report will come to.
fn grant_early(live: &Live, report: &wire::ledger::Report) {
    let command = Command::Reports(vec![(live.edge.clone(), report.clone())]);
    let at = live.sessions.shared.host.wall();
    let entry = Entry { at, clock: LogMs::default(), command };
    let mut state = live.sessions.shared.consensus.read(State::clone);
    let revision = state.newest_stamp().revision;
    for effect in state.apply(revision, &entry).effects {
        if let Effect::Grants { edge, grants } = effect {
            live.sessions.send(&edge, &ToEdge::Grants(grants));
        }
    }
}

fn settlement(live: &Live, command: Command) {
    if live.settlements.try_send(command).is_err() {
        tracing::debug!(edge = %live.edge, "settlements wait already; the edge sends this one again");
    }
}

/// Proposes settlements one after the other. The acknowledgement is an effect of the entry.
async fn settle(sessions: Sessions, mut queue: mpsc::Receiver<Command>) {
    while let Some(command) = queue.recv().await {
        if let Err(error) = sessions.shared.consensus.propose(command).await {
            tracing::debug!(%error, "a settlement was not taken; the edge sends it again");
        }
    }
}

async fn bye(live: &Live) -> End {
    let command = Command::Bye { edge: live.edge.clone(), boot: live.boot };
    match live.sessions.shared.consensus.propose(command).await {
        Ok(_done) => "it left in good order".to_owned(),
        Err(error) => format!("it left, unnoticed by the log: {error}"),
    }
}
