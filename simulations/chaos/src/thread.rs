//! Threads: one at real-time priority for the links, and one in each host for an actor of ours.

use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::{ChaosError, Namespace, namespace};

/// Above every normal process, below the kernel's own real-time threads.
const PRIORITY: libc::c_int = 10;

/// Gives the calling thread real-time priority, and says whether the kernel let it.
pub(crate) fn urgent() -> bool {
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: the kernel reads one `sched_param`, which outlives the call; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
}

/// A thread that lives in a host and runs work until it is told to end.
#[derive(Debug)]
pub struct Actor {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What an actor's work waits on to end.
#[derive(Debug)]
pub struct Ending(mpsc::Receiver<()>);

impl Ending {
    /// Blocks until the actor is to end.
    pub fn wait(&self) {
        // The sender says nothing: it goes.
        let _gone = self.0.recv();
    }
}

impl Actor {
    /// Starts a thread in `host`, or in the network of this process, that runs `work`, and waits for what `work` tells through the sender first.
    ///
    /// # Errors
    /// [`ChaosError`] when there is no thread, the host is gone, or `work` told nothing.
    pub fn start<T: Send + 'static>(
        host: Option<&Namespace>,
        work: impl FnOnce(&dyn Fn(T), &Ending) + Send + 'static,
    ) -> Result<(Self, T), ChaosError> {
        let (end, ending) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let name = host.map(|host| host.name().to_owned());
        let thread = std::thread::Builder::new().name(name.clone().unwrap_or_else(|| "actor".to_owned()));
        let thread = thread.spawn(move || {
            match name.as_deref().map_or(Ok(()), namespace::enter) {
                // Nobody listens any more when the one who started the thread is gone.
                Ok(()) => work(&|it| drop(tell.send(Ok(it))), &Ending(ending)),
                Err(error) => drop(tell.send(Err(error))),
            }
        });
        let thread = thread.map_err(ChaosError::kernel("starting a thread"))?;
        let actor = Self { end: Some(end), thread: Some(thread) };
        let told = told.recv().map_err(|_gone| ChaosError::Ended)??;
        Ok((actor, told))
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // What it did shows elsewhere.
            drop(thread.join());
        }
    }
}
