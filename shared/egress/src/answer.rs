//! A call from another node, over the mesh: the serving end.

use std::future::poll_fn;
use std::task::Poll;

use base::Code;
use bytes::Bytes;
use mesh::{Connection, MeshError, Receiver, Sender};
use wire::call::{CallHead, Failure, Note, ReplyHead, Tail};
use wire::frame::Kind;
use wire::ledger::Outcome;

use crate::left::{Left, gone};
use crate::spans::Serving;
use crate::{Egress, Failed, Options, Reply};

/// When a node that leaves is replaced, nobody here knows; its neighbours take calls at once.
const SOON_MS: u32 = 1_000;

/// Serves one call, forwarded over `connection`, from this node's upstreams. The caller's reset, at any moment, cancels
/// the upstream's work; no upstream is asked for a caller who has given this node up.
/// One that was reset before an answer began is told how far the call came, in case its sender listens.
///
/// # Errors
/// [`MeshError`] when the other node broke the protocol or is gone; the call is cancelled.
pub async fn answer(
    egress: &Egress,
    connection: &Connection,
    mut sender: Sender,
    mut receiver: Receiver,
) -> Result<(), MeshError> {
    let mut call: CallHead = match receiver.expect(Kind::CALL_HEAD).await {
        Err(MeshError::Reset) => return close(&mut sender, &gone(false, Vec::new())).await,
        read => read?,
    };
    let mut serving = Serving::begin(egress, &mut call);
    let tail = serve(egress, call, connection, (&mut sender, &mut receiver)).await?;
    if let Some(serving) = &mut serving {
        serving.ended(tail.code);
    }
    close(&mut sender, &tail).await
}

async fn serve(
    egress: &Egress,
    call: CallHead,
    connection: &Connection,
    (sender, receiver): (&mut Sender, &mut Receiver),
) -> Result<Tail, MeshError> {
    let body = match body(receiver, &egress.shared.options).await {
        Ok(Ok(body)) => body,
        Ok(Err(refused)) => return refuse(sender, refused).await,
        Err(error) => return far(error, Left::untouched()),
    };
    let stopped = sender.stopped();
    // Looked at before each step of the call: after a standstill nothing else tells.
    let given_up = poll_fn(|_cx| connection.check_stands().map_or_else(Poll::Ready, |()| Poll::Pending));
    let mut left = Left::untouched();
    let exchange = tokio::select! {
        biased;
        error = given_up => return Err(error),
        () = stopped => return Err(MeshError::Stopped),
        error = reset(receiver) => return far(error, left),
        exchange = egress.serve(call, body, Some(&mut left)) => exchange,
    };
    match exchange {
        Ok(reply) => pass_on(sender, receiver, reply).await,
        Err(failed) => refuse(sender, *failed).await,
    }
}

/// Refuses one forwarded call because this node is leaving: nothing of it was served, and its sender goes elsewhere.
///
/// # Errors
/// [`MeshError`] when the other node is gone.
pub async fn decline(mut sender: Sender) -> Result<(), MeshError> {
    let message = "The node that serves the model is leaving. Send the call again in a moment.";
    let tail = refuse(&mut sender, untouched(Code::Draining, message, Some(SOON_MS))).await?;
    close(&mut sender, &tail).await
}

/// The call's body, or why it is not taken.
async fn body(receiver: &mut Receiver, options: &Options) -> Result<Result<Bytes, Failed>, MeshError> {
    let mut body = options.bodies.gather();
    loop {
        let frame = receiver.recv().await?.ok_or(MeshError::Reset)?;
        match frame.kind {
            Kind::DATA if body.len().saturating_add(frame.payload.len()) > options.max_request => {
                let message = "the body is larger than the serving node takes";
                return Ok(Err(untouched(Code::BodyTooLarge, message, None)));
            }
            Kind::DATA => {
                if body.push(frame.payload).is_err() {
                    let message =
                        "the node that serves the model holds as many calls as it can; try again shortly";
                    return Ok(Err(untouched(Code::ModelOverloaded, message, Some(SOON_MS))));
                }
            }
            Kind::MESSAGE_END => return Ok(Ok(body.finish())),
            other => return Err(MeshError::Unexpected { expected: Kind::DATA, found: Some(other) }),
        }
    }
}

/// Waits until the caller gives the call up. An end in good order is none.
async fn reset(receiver: &mut Receiver) -> MeshError {
    loop {
        match receiver.recv().await {
            // A newer caller may say more; nothing of it cancels.
            Ok(Some(_frame)) => {}
            Ok(None) => std::future::pending().await,
            Err(error) => return error,
        }
    }
}

/// How far a call came whose caller reset it before an answer began.
fn far(error: MeshError, left: Left) -> Result<Tail, MeshError> {
    match (error, left) {
        (MeshError::Reset, Left::Told(tail)) => Ok(tail),
        (error, _) => Err(error),
    }
}

async fn pass_on(sender: &mut Sender, receiver: &mut Receiver, reply: Reply) -> Result<Tail, MeshError> {
    let Reply { status, headers, mut body, provider_key, notes } = reply;
    note(sender, &notes).await?;
    let headers = headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    let head = ReplyHead { status, headers: headers.collect(), provider_key };
    sender.send(Kind::REPLY_HEAD, &head).await?;
    let stopped = sender.stopped();
    let gone = async {
        tokio::select! {
            biased;
            () = stopped => MeshError::Stopped,
            error = reset(receiver) => error,
        }
    };
    let mut gone = std::pin::pin!(gone);
    loop {
        let item = tokio::select! {
            biased;
            error = &mut gone => return Err(error),
            item = body.next() => item,
        };
        let Some(item) = item else { break };
        // A caller that reads slowly holds the upstream back here.
        tokio::select! {
            biased;
            error = &mut gone => return Err(error),
            sent = sender.send_data(item) => sent?,
        }
    }
    sender.end(Kind::MESSAGE_END).await?;
    Ok(body.tail())
}

async fn refuse(sender: &mut Sender, failed: Failed) -> Result<Tail, MeshError> {
    note(sender, &failed.notes).await?;
    sender.send(Kind::FAILURE, &failed.failure).await?;
    Ok(failed.tail)
}

/// Tells what upstreams said to failed attempts, if any did.
async fn note(sender: &mut Sender, notes: &[Note]) -> Result<(), MeshError> {
    if notes.is_empty() { Ok(()) } else { sender.send(Kind::NOTES, notes).await }
}

async fn close(sender: &mut Sender, tail: &Tail) -> Result<(), MeshError> {
    sender.send(Kind::TAIL, tail).await?;
    sender.finish()
}

/// A refusal before any upstream was asked.
fn untouched(code: Code, message: &str, retry_after_ms: Option<u32>) -> Failed {
    let failure =
        Failure { code, message: message.to_owned(), upstream_status: None, body: None, retry_after_ms };
    let tail = Tail {
        outcome: Outcome::Failed,
        code: Some(code),
        usage: None,
        reached_upstream: false,
        hops: Vec::new(),
    };
    Failed { failure, tail, notes: Vec::new() }
}
