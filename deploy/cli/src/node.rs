//! A node as a process: a runtime, a host, and a stop that follows signals.

use std::future::Future;
use std::io::{self, Read as _};
use std::time::Duration;

use seam::{Host, Stop, Stopper};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Demo;
use crate::demo::{self, Options};
use crate::failure::{Failure, Outcome};
use crate::out;

/// Runs `work` on this process's runtime. Reads of standard input that still wait are left behind.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?;
    let result = runtime.block_on(work);
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}

/// Runs a demo model server until it is told to stop.
pub(crate) fn demo(arguments: Demo) -> Outcome {
    let options = Options {
        listen: arguments.listen,
        name: arguments.name,
        region: arguments.region,
        key: arguments.key,
        first_token: Duration::from_millis(arguments.first_token_ms),
        tokens_per_s: arguments.tokens_per_s,
    };
    block_on(async {
        let host = Host::real();
        let stop = stop_on_signal(&host, arguments.until_eof)?;
        let listen = options.listen;
        let server = demo::Server::bind(&host, options)
            .await
            .map_err(|error| Failure::failed(format!("cannot listen at {listen}: {error}")))?;
        out::line(format_args!("http://{}", server.addr()));
        server.run(stop).await;
        Ok(())
    })
}

/// Asks to stop on SIGTERM and SIGINT, and with `until_eof` when standard input ends.
pub(crate) fn stop_on_signal(host: &Host, until_eof: bool) -> Result<Stop, Failure> {
    let failed = |error: io::Error| Failure::failed(format!("cannot listen for signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let (stopper, stop) = Stopper::new();
    let of = host.clone();
    drop(host.spawn("signals", async move {
        tokio::select! {
            biased;
            _signal = terminate.recv() => {}
            _signal = interrupt.recv() => {}
            () = end_of_input(&of), if until_eof => {}
        }
        stopper.stop();
    }));
    Ok(stop)
}

async fn end_of_input(host: &Host) {
    let read = || {
        let mut scrap = [0; 64];
        // An error ends the input too.
        while let Ok(1..) = io::stdin().read(&mut scrap) {}
    };
    if let Err(seam::Gone) = host.compute(read).await {
        tracing::debug!("reading standard input broke off");
    }
}
