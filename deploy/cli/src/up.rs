//! `portolan up`: a real mesh on this machine, each node a process of its own: three central nodes, three regions with
//! an edge each, demo model servers in two regions and one behind central.
//!
//! It starts its children by running this executable again, waits until the mesh serves, says what to run next, and
//! reports children that die. When it stops, they stop: asked first, killed after a while, and by themselves when it is
//! killed. It touches no process but its own.

mod children;
mod files;
mod layout;
mod ready;
pub(crate) mod tell;
mod upstream;

use std::path::{Path, PathBuf};

use seam::{DiskLock, Host, Stop};
use tempfile::TempDir;

use crate::args::Up;
use crate::failure::{Failure, Outcome};
use crate::{files as disk, node, out};
use children::Children;
use layout::Layout;
use upstream::Upstream;

/// Marks a directory as a mesh's, so that no other directory is ever written over.
const MARK: &str = "portolan-up";

pub(crate) fn run(arguments: &Up) -> Outcome {
    node::block_on(async {
        let host = Host::real();
        let signals = node::signals(&host, false)?;
        let mut home = Home::open(&host, arguments.data.as_deref()).await?;
        let layout = Layout::choose(&host, home.path(), arguments.port).await?;
        let upstream = Upstream::of(&host, arguments).await?;
        let (tokenizers, traces) = (arguments.tokenizers.as_deref(), arguments.traces.as_deref());
        let mesh = files::write(&host, &layout, upstream.as_ref(), tokenizers, traces)?;
        let mut children = Children::new(&layout, &mesh)?;
        let plan = Plan { layout: &layout, mesh: &mesh, upstream: upstream.as_ref() };
        let result = serve(&host, &plan, &mut children, &signals.stop).await;
        out::remark("stopping every process of the mesh; Ctrl-C again kills them…");
        children.stop(&host, &signals.now).await;
        // Nobody shall look for a mesh that is gone.
        disk::remove(&layout.path(tell::FACTS))?;
        if result.is_err() {
            home.keep();
        }
        result
    })
}

struct Plan<'a> {
    layout: &'a Layout,
    mesh: &'a files::Written,
    upstream: Option<&'a Upstream>,
}

async fn serve(host: &Host, plan: &Plan<'_>, children: &mut Children, stop: &Stop) -> Outcome {
    let started = host.now();
    out::remark("starting three central nodes, three edges and three demo model servers…");
    children.start_all()?;
    let ready = tokio::select! {
        biased;
        () = stop.wanted() => return Ok(()),
        death = children.death() => return Err(death.failure()),
        ready = Box::pin(ready::wait(host, plan.layout, plan.mesh)) => ready,
    };
    ready?;
    tell::facts(plan.layout, plan.mesh, children)?;
    tell::next_steps(plan.layout, plan.mesh, children, plan.upstream, host.now().since(started));
    loop {
        tokio::select! {
            biased;
            () = stop.wanted() => return Ok(()),
            death = children.death() => out::remark(death.report()),
        }
    }
}

/// The mesh's directory: given and kept, or made for this run and removed after it.
struct Home {
    path: PathBuf,
    scratch: Option<TempDir>,
    _lock: Box<dyn DiskLock>,
}

impl Home {
    async fn open(host: &Host, data: Option<&Path>) -> Result<Self, Failure> {
        let (path, scratch) = match data {
            Some(data) => (Self::claim(data)?, None),
            None => {
                let failed = |error| Failure::failed(format!("cannot make a temporary directory: {error}"));
                let scratch = tempfile::Builder::new().prefix("portolan-").tempdir().map_err(failed)?;
                (scratch.path().to_owned(), Some(scratch))
            }
        };
        let lock = host.disk().lock(&path.join("lock")).await.map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => {
                Failure::failed(format!("another `portolan up` runs in {}", path.display()))
                    .mend("stop it, or choose another directory with --data")
            }
            _other => Failure::failed(format!("cannot lock {}: {error}", path.join("lock").display())),
        })?;
        Ok(Self { path, scratch, _lock: lock })
    }

    /// Takes a directory that is new, empty, or this command's from before.
    fn claim(data: &Path) -> Result<PathBuf, Failure> {
        let mend = "choose a directory that you may write to with --data";
        if disk::exists(data) && !disk::is_dir(data) {
            return Err(Failure::failed(format!("{} is not a directory", data.display())).mend(mend));
        }
        if !disk::list(data)?.is_empty() && !disk::exists(&data.join(MARK)) {
            let what = format!("{} holds files of something else", data.display());
            return Err(Failure::failed(what).mend("choose an empty or new directory with --data"));
        }
        disk::make_dir(data).map_err(|failure| failure.mend(mend))?;
        disk::write(&data.join(MARK), "a mesh of `portolan up --data`\n", disk::Readers::All)
            .map_err(|failure| failure.mend(mend))?;
        std::path::absolute(data).map_err(|error| Failure::failed(format!("{}: {error}", data.display())))
    }

    fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves a directory that was made for this run: its logs tell what went wrong.
    fn keep(&mut self) {
        if let Some(scratch) = self.scratch.take() {
            out::remark(format_args!("the mesh's files are left in {}", scratch.keep().display()));
        }
    }
}
