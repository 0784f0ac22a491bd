//! A process in a host: started with its log in a file, killed, stopped, let go on. Dropping it kills it, and it dies with
//! the thread that started it.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::{ChaosError, Namespace, namespace};

/// A process.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Runs `program` in `host`, or in the network of this process; what it says is added to the file `log`. It finds
    /// `environment` beside what this process has.
    ///
    /// # Errors
    /// [`ChaosError`] when it does not start.
    pub fn start(
        host: Option<&Namespace>,
        program: &Path,
        arguments: &[&OsStr],
        environment: &[(&str, OsString)],
        log: &Path,
    ) -> Result<Self, ChaosError> {
        let doing = || format!("starting {}", program.display());
        let handle = host.map(|host| namespace::handle(host.name())).transpose()?;
        let log = OpenOptions::new().create(true).append(true).open(log);
        let log = log.map_err(ChaosError::kernel("opening a log"))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0);
        // SAFETY: between fork and exec only system calls are made, with a descriptor that is open and numbers; nothing
        // is allocated and no lock is taken.
        unsafe {
            command.pre_exec(move || {
                let is_bound = libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0;
                let is_in = handle
                    .as_ref()
                    .is_none_or(|handle| libc::setns(handle.as_raw_fd(), libc::CLONE_NEWNET) == 0);
                if is_bound && is_in { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
        let child = command.spawn().map_err(ChaosError::kernel(doing()))?;
        Ok(Self { child })
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it and waits until it is gone.
    pub fn kill(&mut self) {
        // A process that is gone already needs no killing.
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Asks it to end in good order.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Lets it stand still.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// How it ended, when it has.
    pub fn ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// Files and sockets that it holds.
    #[must_use]
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).map_or(0, Iterator::count)
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // A process that is gone hears nothing.
            let _gone = kill_process(pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
