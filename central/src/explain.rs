//! Who refused a call, and why: the edge that did remembers it for a while.

use std::pin::pin;
use std::time::Duration;

use base::{Name, RequestId, Role};
use central_core::State;
use futures_util::{StreamExt as _, stream};
use mesh::MeshError;
use wire::control::{NodeAddr, Opening};
use wire::frame::Kind;
use wire::refusal::Refusal;

use crate::status::Overview;

/// How long an edge may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Edges asked at once.
const AT_ONCE: usize = 32;

/// What the edges said of one call.
#[derive(Debug)]
pub(crate) struct Searched {
    /// Who refused it, and why.
    pub(crate) found: Option<(NodeAddr, Refusal)>,
    /// Edges that were asked and did not answer.
    pub(crate) silent: Vec<Name>,
    /// How many edges answered.
    pub(crate) answered: usize,
}

impl Overview {
    /// Asks the edges whether they refused a call, until one did.
    pub(crate) async fn refusal(&self, request: RequestId) -> Searched {
        let nodes = self.consensus.read(|state: &State| state.registry().nodes());
        let edges = nodes.into_iter().filter(|node| node.role == Role::Edge);
        let asked = stream::iter(edges).map(|edge| async move {
            let answer = self.host.timeout(ANSWER_WITHIN, self.ask_refusal(&edge, request)).await;
            (edge, answer)
        });
        let mut answers = pin!(asked.buffer_unordered(AT_ONCE));
        let mut searched = Searched { found: None, silent: Vec::new(), answered: 0 };
        while let Some((edge, answer)) = answers.next().await {
            match answer {
                Ok(Ok(Some(refusal))) => {
                    searched.found = Some((edge, refusal));
                    break;
                }
                Ok(Ok(None)) => searched.answered += 1,
                Ok(Err(error)) => {
                    tracing::debug!(edge = %edge.name, %error, "an edge does not tell its refusals");
                    searched.silent.push(edge.name);
                }
                Err(seam::Late) => searched.silent.push(edge.name),
            }
        }
        searched
    }

    async fn ask_refusal(&self, edge: &NodeAddr, request: RequestId) -> Result<Option<Refusal>, MeshError> {
        let connection = self.links.connect(edge).await?;
        let (mut sender, mut receiver) = connection.open(Opening::Refusal).await?;
        sender.send(Kind::RPC_REQUEST, &request).await?;
        sender.finish()?;
        receiver.expect(Kind::RPC_REPLY).await
    }
}
