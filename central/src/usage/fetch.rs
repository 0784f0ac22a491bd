//! Completing a usage store from those of other central nodes, a page at a time.

use std::time::Duration;

use base::{Name, Role};
use mesh::{Connection, Links, MeshError, Receiver, Sender};
use serde::{Deserialize, Serialize};
use usage_store::{Page, Progress, Span, StoreError};
use wire::control::{NodeAddr, Opening};
use wire::frame::Kind;

use super::feed::Fed;
use super::{Usage, UsageError, lacks};
use crate::consensus::Consensus;

/// How long another node may take for a page.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// How long to wait when no other node can help.
const PAUSE: Duration = Duration::from_secs(5);

/// What a store lacks.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Asked {
    span: Span,
    after: Option<Progress>,
}

/// Why another node did not help.
#[derive(Debug, thiserror::Error)]
enum Helpless {
    #[error(transparent)]
    Mesh(#[from] MeshError),
    #[error("no answer in time")]
    Late,
    #[error("{0}")]
    Said(String),
    #[error(transparent)]
    Here(#[from] UsageError),
}

impl Usage {
    /// Fetches what the store lacks, whenever it lacks something.
    pub(super) async fn fetch(self, consensus: Consensus, links: Links) {
        let mut standing = self.standing.clone();
        let mut told = false;
        loop {
            let wanting =
                standing.wait_for(|standing| !standing.missing.is_empty() && standing.failing.is_none());
            let Ok(entries) = wanting.await.map(|standing| lacks(&standing)) else { return };
            if !told {
                tracing::info!(entries, "receipts that the usage store lacks are fetched from other nodes");
            }
            if self.fetch_once(&consensus, &links).await {
                tracing::info!("the usage store is complete");
                told = false;
                continue;
            }
            if !told {
                tracing::warn!(
                    "no other central node has the receipts that the usage store lacks; it asks on"
                );
            }
            told = true;
            self.host.sleep(PAUSE).await;
        }
    }

    /// Asks each other node for what it has; whether nothing is missing then.
    async fn fetch_once(&self, consensus: &Consensus, links: &Links) -> bool {
        let standing = consensus.standing();
        for member in standing.members.iter().filter(|member| member.id != standing.id) {
            if let Err(error) = self.fetch_from(links, &member.node).await {
                tracing::debug!(node = %member.node.name, %error, "a node cannot complete the usage store");
            }
        }
        self.standing.borrow().missing.is_empty()
    }

    async fn fetch_from(&self, links: &Links, node: &NodeAddr) -> Result<(), Helpless> {
        let mut after = None;
        loop {
            let gap = self.standing.borrow().missing.first().copied();
            let Some(span) = gap else { return Ok(()) };
            let asking = ask(links, node, Asked { span, after });
            let page = self.host.timeout(ANSWER_WITHIN, asking).await.map_err(|_late| Helpless::Late)??;
            let page = Box::new(page);
            after = self.order(|done| Fed::Page { page, done }).await?;
            let still = self.standing.borrow().missing.first().copied();
            if after.is_none() && still == gap {
                return Err(Helpless::Said("it gave what was not asked for".to_owned()));
            }
        }
    }

    /// Answers another central node.
    pub(crate) async fn answer(
        &self,
        consensus: &Consensus,
        connection: &Connection,
        mut sender: Sender,
        mut receiver: Receiver,
    ) -> Result<(), MeshError> {
        let peer = connection.peer();
        if peer.role != Role::Central {
            tracing::warn!(peer = %peer.node, "a node that is not central asked the usage store");
            return Ok(());
        }
        let asked: Asked = receiver.expect(Kind::RPC_REQUEST).await?;
        let page = self.page(consensus, &peer.node, asked).await;
        sender.send(Kind::RPC_REPLY, &page).await?;
        sender.finish()?;
        sender.stopped().await;
        Ok(())
    }

    async fn page(&self, consensus: &Consensus, peer: &Name, asked: Asked) -> Result<Page, String> {
        let applied = *consensus.applied().borrow();
        let upto = asked.span.upto.min(applied);
        self.reach(Some(upto)).await.map_err(|error| error.to_string())?;
        let page = self.look(move |view| view.export(asked.span, asked.after)).await;
        page.map_err(|error| {
            if !matches!(error, UsageError::Store(StoreError::Lacks(_))) {
                tracing::warn!(%peer, %error, "another node's usage store could not be helped");
            }
            error.to_string()
        })
    }
}

async fn ask(links: &Links, node: &NodeAddr, asked: Asked) -> Result<Page, Helpless> {
    let connection = links.connect(node).await?;
    let (mut sender, mut receiver) = connection.open(Opening::Usage).await?;
    sender.send(Kind::RPC_REQUEST, &asked).await?;
    sender.finish()?;
    receiver.expect::<Result<Page, String>>(Kind::RPC_REPLY).await?.map_err(Helpless::Said)
}
