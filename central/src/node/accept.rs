//! Takes connections from the mesh and gives each stream to whom it is for.

use std::sync::Arc;

use base::Role;
use mesh::{Connection, Endpoint, MeshError, Purpose, Receiver, Sender};
use seam::{Host, Stop};
use tokio::sync::watch;
use wire::control::Opening;

use crate::consensus::Consensus;
use crate::relay::Relay;
use crate::sessions::Sessions;
use crate::status::Overview;
use crate::usage::Usage;

/// Calls in progress.
#[derive(Clone, Debug)]
pub(super) struct Calls(Arc<watch::Sender<usize>>);

impl Default for Calls {
    fn default() -> Self {
        Self(Arc::new(watch::channel(0).0))
    }
}

/// One call in progress; dropping it ends it.
struct Call(Calls);

impl Calls {
    fn begin(&self) -> Call {
        self.0.send_modify(|calls| *calls += 1);
        Call(self.clone())
    }

    pub(super) fn count(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until none is in progress.
    pub(super) async fn ended(&self) {
        // The sender lives as long as `self`.
        drop(self.0.subscribe().wait_for(|calls| *calls == 0).await);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.0.send_modify(|calls| *calls = calls.saturating_sub(1));
    }
}

/// Takes connections.
#[derive(Clone, Debug)]
pub(super) struct Acceptor {
    pub(super) host: Host,
    pub(super) endpoint: Endpoint,
    pub(super) consensus: Consensus,
    pub(super) sessions: Sessions,
    pub(super) relay: Relay,
    pub(super) overview: Overview,
    pub(super) usage: Usage,
    pub(super) calls: Calls,
    /// From here on no new call is relayed.
    pub(super) draining: Stop,
}

impl Acceptor {
    /// Takes connections until the endpoint closes.
    pub(super) async fn run(self) {
        while let Some(connection) = self.endpoint.accept().await {
            let acceptor = self.clone();
            drop(self.host.spawn("mesh-connection", async move { acceptor.connection(connection).await }));
        }
    }

    async fn connection(self, connection: Connection) {
        match connection.purpose() {
            Purpose::Consensus if connection.peer().role == Role::Central => {
                self.consensus.serve(connection).await;
            }
            Purpose::Consensus => connection.close("only central nodes take part in consensus"),
            Purpose::Calls => {
                while let Ok((opening, sender, receiver)) = connection.accept_stream().await {
                    let (acceptor, connection) = (self.clone(), connection.clone());
                    drop(self.host.spawn("mesh-stream", async move {
                        acceptor.stream(&connection, opening, sender, receiver).await;
                    }));
                }
            }
        }
    }

    async fn stream(&self, connection: &Connection, opening: Opening, sender: Sender, receiver: Receiver) {
        let peer = connection.peer();
        let ended = match opening {
            Opening::Control if peer.role == Role::Edge => {
                self.sessions.serve(connection, sender, receiver).await;
                Ok(())
            }
            Opening::Call if peer.role == Role::Edge => self.call(connection, sender, receiver).await,
            Opening::Rpc => self.consensus.answer(connection, sender, receiver).await,
            Opening::Status => self.overview.answer(connection, sender).await,
            Opening::Usage => self.usage.answer(&self.consensus, connection, sender, receiver).await,
            Opening::Control | Opening::Call | Opening::Refusal => {
                tracing::warn!(%peer, ?opening, "a node opened a stream that it may not open here");
                Ok(())
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, ?opening, %error, "a stream broke off");
        }
    }

    /// Relays a call, or refuses it when the node drains. It is counted before it looks, so that a drain waits for what
    /// it did not see.
    async fn call(
        &self,
        connection: &Connection,
        sender: Sender,
        receiver: Receiver,
    ) -> Result<(), MeshError> {
        let _call = self.calls.begin();
        match self.draining.is_wanted() {
            true => egress::decline(sender).await,
            false => egress::answer(self.relay.egress(), connection, sender, receiver).await,
        }
    }
}
