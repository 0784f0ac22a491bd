//! What the kernel says processes have used.

use std::fs;
use std::time::Duration;

use crate::client::Failed;

/// Ticks a second in `/proc/PID/stat`: `USER_HZ`, 100 on every Linux architecture that Rust has.
const TICKS_PER_S: u32 = 100;

/// CPU time and memory of some processes, summed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Time on a CPU since the start, user and system.
    pub(super) cpu: Duration,
    /// Resident memory.
    pub(super) rss_kib: u64,
}

/// Reads the present usage of all `pids`.
pub(super) fn usage(pids: &[u32]) -> Result<Usage, Failed> {
    let mut sum = Usage::default();
    for pid in pids {
        let one = of(*pid).map_err(|error| format!("process {pid}: {error}"))?;
        sum.cpu += one.cpu;
        sum.rss_kib += one.rss_kib;
    }
    Ok(sum)
}

fn of(pid: u32) -> Result<Usage, Failed> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let rss_kib =
        rss.and_then(|rest| rest.split_whitespace().next()).ok_or("no VmRSS in its status")?.parse()?;
    Ok(Usage { cpu: cpu(&stat).ok_or("its stat has another shape")?, rss_kib })
}

/// User and system time are the 14th and 15th field; the second, in parentheses, may hold anything.
fn cpu(stat: &str) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(Duration::from_secs(1) * user.checked_add(system)? / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 5 6 7";
        assert_eq!(cpu(stat), Some(Duration::from_secs(3)));
        assert!(usage(&[std::process::id()]).unwrap().rss_kib > 0);
    }
}
