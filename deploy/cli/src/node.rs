//! A node as a process: a runtime, a host, and a stop that follows signals.

use std::error::Error;
use std::future::Future;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use base::Role;
use mesh::Credentials;
use seam::{Host, Stop, Stopper};
use telemetry::logs::Format;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Demo, Node};
use crate::demo::{self, Options};
use crate::failure::{Exit, Failure, Outcome};
use crate::{files, out};

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

/// Runs an edge until it is told to stop.
pub(crate) fn edge(arguments: &Node) -> Outcome {
    logs(arguments)?;
    let config = edge_config(&arguments.config)?;
    block_on(async {
        let host = host();
        let stop = signals(&host, arguments.until_eof)?.stop;
        edge::node::run(host, config, stop).await.map_err(|error| failed(&error, error.mend()))
    })
}

/// Runs a central node until it is told to stop.
pub(crate) fn central(arguments: &Node) -> Outcome {
    logs(arguments)?;
    let config = central_config(&arguments.config)?;
    block_on(async {
        let host = host();
        let stop = signals(&host, arguments.until_eof)?.stop;
        central::node::run(host, config, stop).await.map_err(|error| failed(&error, error.mend()))
    })
}

/// The host of a node's process.
#[cfg(not(feature = "next-level"))]
fn host() -> Host {
    Host::real()
}

/// The host of a node's process, a level of messages ahead of this release.
#[cfg(feature = "next-level")]
fn host() -> Host {
    Host::real().ahead(1)
}

/// Reads a node's configuration file, and the files that it names, and tells every mistake.
pub(crate) fn check(role: Role, file: &Path) -> Outcome {
    let (credentials, named) = match role {
        Role::Edge => {
            let config = edge_config(file)?;
            let tls = config.ingress.into_iter().filter_map(|ingress| ingress.tls);
            let tls = tls.flat_map(|tls| [tls.certificate, tls.key]);
            (config.mesh.credentials, tls.chain(config.upstream_authorities).collect::<Vec<_>>())
        }
        Role::Central => {
            let config = central_config(file)?;
            let named = config.seal_keys.into_iter().chain(config.upstream_authorities);
            (config.mesh.credentials, named.collect())
        }
        Role::Operator => {
            return Err(Failure::new(
                Exit::Invalid,
                "operators have no configuration file; use edge or central",
            ));
        }
    };
    let mut faults: Vec<String> =
        named.iter().filter_map(|path| Some(files::read(path).err()?.what().to_owned())).collect();
    let loaded = block_on(async {
        Credentials::load(&Host::real(), &credentials).await.map_err(|error| failed(&error, None))
    });
    match loaded.map(|credentials| credentials.identity()) {
        Ok(identity) if identity.role != role => {
            faults.push(format!(
                "{} holds the certificate of {identity}, whose role is not {role}",
                credentials.display()
            ));
        }
        Ok(_identity) => {}
        Err(failure) => faults.push(failure.what().to_owned()),
    }
    if !faults.is_empty() {
        let what = format!("{} names files that cannot be used\n  {}", file.display(), faults.join("\n  "));
        let mend = "make certificates with `portolan pki issue` and `portolan pki listener`, seal keys with `portolan pki seal-key`";
        return Err(Failure::new(Exit::Invalid, what).mend(mend));
    }
    out::line(format_args!("{} and the files that it names can be used", file.display()));
    Ok(())
}

fn edge_config(file: &Path) -> Result<edge::config::Config, Failure> {
    edge::config::Config::parse(&file.display().to_string(), &files::read(file)?)
        .map_err(|error| Failure::new(Exit::Invalid, error))
}

fn central_config(file: &Path) -> Result<central::config::Config, Failure> {
    central::config::Config::parse(&file.display().to_string(), &files::read(file)?)
        .map_err(|error| Failure::new(Exit::Invalid, error))
}

/// A node's error with its causes, and what to do about it.
fn failed(error: &dyn Error, mend: Option<&str>) -> Failure {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(under) = cause {
        let text = under.to_string();
        // Some errors say already what their cause says.
        if !told.contains(&text) {
            told.push_str(&format!(": {text}"));
        }
        cause = under.source();
    }
    let failure = Failure::failed(told);
    match mend {
        Some(mend) => failure.mend(mend),
        None => failure,
    }
}

fn logs(arguments: &Node) -> Outcome {
    let format = if arguments.log_json { Format::Json } else { Format::Text };
    telemetry::logs::init(format, &arguments.log).map_err(Failure::failed)
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
        let stop = signals(&host, arguments.until_eof)?.stop;
        let listen = options.listen;
        let server = demo::Server::bind(&host, options)
            .await
            .map_err(|error| Failure::failed(format!("cannot listen at {listen}: {error}")))?;
        out::line(format_args!("http://{}", server.addr()));
        server.run(stop).await;
        Ok(())
    })
}

/// What SIGTERM and SIGINT ask for.
pub(crate) struct Signals {
    /// The first: stop in good order.
    pub(crate) stop: Stop,
    /// The second: stop now.
    pub(crate) now: Stop,
}

/// Listens for SIGTERM and SIGINT, and with `until_eof` for the end of standard input.
pub(crate) fn signals(host: &Host, until_eof: bool) -> Result<Signals, Failure> {
    let failed = |error: io::Error| Failure::failed(format!("cannot listen for signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let ((first, stop), (second, now)) = (Stopper::new(), Stopper::new());
    let of = host.clone();
    drop(host.spawn("signals", async move {
        tokio::select! {
            biased;
            _signal = terminate.recv() => {}
            _signal = interrupt.recv() => {}
            () = end_of_input(&of), if until_eof => {}
        }
        first.stop();
        tokio::select! {
            biased;
            _signal = terminate.recv() => {}
            _signal = interrupt.recv() => {}
        }
        second.stop();
    }));
    Ok(Signals { stop, now })
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
