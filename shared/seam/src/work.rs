//! Futures that hold the work they drive in place. An `async` block would hold it twice: once as captured, once as
//! awaited; with every layer the size of a task would double.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::sync::oneshot;
use tokio::time::Timeout;

use crate::Late;

pin_project! {
    /// Work whose result goes to whoever waits for it.
    pub(crate) struct Reporting<F: Future> {
        #[pin]
        work: F,
        done: Option<oneshot::Sender<F::Output>>,
    }
}

impl<F: Future> Reporting<F> {
    pub(crate) const fn new(work: F, done: oneshot::Sender<F::Output>) -> Self {
        Self { work, done: Some(done) }
    }
}

impl<F: Future> Future for Reporting<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let result = ready!(this.work.poll(cx));
        // The receiver may be gone: then nobody wants the result.
        drop(this.done.take().map(|done| done.send(result)));
        Poll::Ready(())
    }
}

pin_project! {
    /// Work under a limit of time; [`Late`] when it ran out.
    #[must_use = "futures do nothing unless polled"]
    pub struct Timed<F> {
        #[pin]
        work: Timeout<F>,
    }
}

impl<F> Timed<F> {
    pub(crate) const fn new(work: Timeout<F>) -> Self {
        Self { work }
    }
}

impl<F> std::fmt::Debug for Timed<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timed").finish_non_exhaustive()
    }
}

impl<F: Future> Future for Timed<F> {
    type Output = Result<F::Output, Late>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().work.poll(cx).map_err(|_elapsed| Late)
    }
}
