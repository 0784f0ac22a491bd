//! Network namespaces: one for each host, gone with the value that made it.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::{ChaosError, tun};

/// Where `ip netns` keeps its handles.
const HANDLES: &str = "/run/netns";

/// The device in every host.
const DEVICE: &str = "mesh0";

/// A host to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name, unique in the run.
    pub name: String,
    /// Its address in 10.0.0.0/8.
    pub address: Ipv4Addr,
}

/// A network namespace with a loopback and a TUN device. Dropping it removes it; processes that still run in it keep a
/// network without links.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    address: Ipv4Addr,
    tun: Option<OwnedFd>,
}

impl Namespace {
    /// Makes a namespace called `PREFIX-NAME`.
    ///
    /// # Errors
    /// [`ChaosError`] when the kernel or `ip` refuses, which it does without `CAP_NET_ADMIN`.
    pub fn new(prefix: &str, host: &Host) -> Result<Self, ChaosError> {
        let name = format!("{prefix}-{}", host.name);
        ip(&["netns", "add", &name])?;
        let mut made = Self { name, address: host.address, tun: None };
        let (name, doing) = (made.name.clone(), format!("attaching a TUN device in {}", made.name));
        // The device is made by a thread that lives in the namespace; what it opened serves from anywhere.
        let opened = std::thread::spawn(move || -> Result<OwnedFd, ChaosError> {
            enter(&name)?;
            tun::open(DEVICE).map_err(ChaosError::kernel(doing))
        });
        made.tun = Some(opened.join().map_err(|_panic| ChaosError::Ended)??);
        let with_prefix = format!("{}/8", host.address);
        ip(&["-n", &made.name, "addr", "add", &with_prefix, "dev", DEVICE])?;
        ip(&["-n", &made.name, "link", "set", DEVICE, "mtu", "1500", "up"])?;
        ip(&["-n", &made.name, "link", "set", "lo", "up"])?;
        Ok(made)
    }

    /// Its name, as `ip netns` knows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its host's address.
    #[must_use]
    pub const fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// A command that runs `program` in it. The process that is started is `program` itself.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Moves the calling thread into it: sockets made and processes started by the thread from here on are the host's.
    ///
    /// # Errors
    /// [`ChaosError`] when the kernel refuses.
    pub fn enter(&self) -> Result<(), ChaosError> {
        enter(&self.name)
    }

    /// The far end of its TUN device.
    pub(crate) fn take_tun(&mut self) -> Option<OwnedFd> {
        self.tun.take()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A namespace that is left over costs a handle; there is nobody to tell.
        let _removed = ip(&["netns", "del", &self.name]);
    }
}

/// Forgets handles that runs left which were killed: names that begin with `PREFIX-` and the number of a process that is
/// gone.
pub fn forget_dead(prefix: &str) {
    let is_dead = |name: &str| {
        let rest = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
        let number = rest.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        number.is_some_and(|number| !std::path::Path::new(&format!("/proc/{number}")).exists())
    };
    let names = std::fs::read_dir(HANDLES).into_iter().flatten().flatten();
    for name in names.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| is_dead(name)) {
        // A handle that is left over costs nothing.
        let _removed = ip(&["netns", "del", &name]);
    }
}

pub(crate) fn handle(name: &str) -> Result<File, ChaosError> {
    let doing = format!("entering the namespace {name}");
    File::open(format!("{HANDLES}/{name}")).map_err(ChaosError::kernel(doing))
}

pub(crate) fn enter(name: &str) -> Result<(), ChaosError> {
    let doing = || format!("entering the namespace {name}");
    let handle = handle(name)?;
    move_into_link_name_space(handle.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| ChaosError::kernel(doing())(error.into()))
}

fn ip(arguments: &[&str]) -> Result<(), ChaosError> {
    let output = Command::new("ip").args(arguments).output().map_err(ChaosError::kernel("running `ip`"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(ChaosError::Ip { arguments: arguments.join(" "), said })
}
