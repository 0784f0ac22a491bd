//! What goes back to a caller: a head and either whole bytes or a flow of pieces.
//!
//! A flow is produced by one future that runs inside the body itself: it is polled only when the connection takes
//! more (that is the backpressure), and it is dropped with the connection (that is the cancellation). No task and no
//! channel stand between an upstream's chunk and the caller's socket.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use seam::Lock;

use super::flows::{Flows, Worker};

/// How a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Everything was said.
    Whole,
    /// The answer is broken off; the connection must show it, since nothing in the body can.
    Broken,
}

/// The answer is broken off.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the answer broke off")]
pub(crate) struct Broken;

/// An answer's body.
#[derive(Debug)]
pub(crate) struct Answer(Inner);

#[derive(Debug)]
enum Inner {
    Whole(Option<Bytes>),
    Flow(Flow),
}

#[derive(Debug)]
struct Flow {
    worker: Arc<Worker>,
    slot: Slot,
    ended: bool,
}

/// Where a piece waits between the future that made it and the poll that takes it.
type Slot = Arc<Lock<Option<Bytes>>>;

/// The producing side of a flow.
#[derive(Debug)]
pub(crate) struct Outlet(Slot);

impl Outlet {
    /// Hands over a piece; ready once the connection took it. Never hand over a piece before the last was taken.
    pub(crate) fn send(&self, piece: Bytes) -> Taken<'_> {
        if !piece.is_empty() {
            *self.0.lock() = Some(piece);
        }
        Taken(&self.0)
    }
}

/// Waits until a piece was taken. The flow polls its future again after each piece, so that no waker is needed.
#[derive(Debug)]
pub(crate) struct Taken<'a>(&'a Slot);

impl Future for Taken<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        if self.0.lock().is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Answer {
    /// A body that is here already.
    pub(crate) const fn whole(bytes: Bytes) -> Self {
        Self(Inner::Whole(Some(bytes)))
    }

    /// A body that `produce` hands over piece by piece, until its caller takes nothing for longer than `flows` allow.
    pub(crate) fn flow<F>(flows: &Flows, produce: impl FnOnce(Outlet) -> F) -> Self
    where
        F: Future<Output = End> + Send + 'static,
    {
        let slot = Slot::default();
        let work = produce(Outlet(Arc::clone(&slot)));
        Self(Inner::Flow(Flow { worker: flows.begin(Box::pin(work)), slot, ended: false }))
    }

    /// Length in bytes, when known.
    pub(crate) fn len(&self) -> Option<usize> {
        match &self.0 {
            Inner::Whole(bytes) => Some(bytes.as_ref().map_or(0, Bytes::len)),
            Inner::Flow(_) => None,
        }
    }

    /// The next piece; `None` at the end.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        match &mut self.0 {
            Inner::Whole(bytes) => Poll::Ready(bytes.take().filter(|bytes| !bytes.is_empty()).map(Ok)),
            Inner::Flow(flow) => flow.poll_piece(cx),
        }
    }
}

impl Flow {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let ended = self.worker.poll(cx);
        let piece = self.slot.lock().take();
        self.ended = ended.is_ready();
        match (ended, piece) {
            (Poll::Pending, Some(piece)) => {
                self.worker.owed();
                Poll::Ready(Some(Ok(piece)))
            }
            (Poll::Pending, None) => Poll::Pending,
            (Poll::Ready(_end), Some(last)) => Poll::Ready(Some(Ok(last))),
            (Poll::Ready(End::Whole), None) => Poll::Ready(None),
            (Poll::Ready(End::Broken), None) => Poll::Ready(Some(Err(Broken))),
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.poll_piece(cx).map(|piece| piece.map(|result| result.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Inner::Flow(flow) => flow.ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.len().map_or_else(SizeHint::default, |len| SizeHint::with_exact(len as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn pieces_come_one_by_one_and_the_producer_waits_for_each() {
        let passed = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&passed);
        let mut body = Answer::flow(&Flows::default(), |outlet| async move {
            outlet.send(Bytes::from_static(b"one")).await;
            seen.store(true, Ordering::Relaxed);
            outlet.send(Bytes::from_static(b"two")).await;
            End::Whole
        });
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((first.as_ref(), passed.load(Ordering::Relaxed)), (&b"one"[..], false));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "two");
    }

    #[tokio::test]
    async fn a_broken_flow_is_an_error_and_dropping_it_drops_its_producer() {
        let broken = Answer::flow(&Flows::default(), |_outlet| async { End::Broken });
        assert!(broken.collect().await.is_err());

        let held = Arc::new(());
        let inside = Arc::clone(&held);
        let mut body = Answer::flow(&Flows::default(), |outlet| async move {
            let _inside = inside;
            outlet.send(Bytes::from_static(b"x")).await;
            std::future::pending().await
        });
        body.frame().await.unwrap().unwrap();
        drop(body);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
