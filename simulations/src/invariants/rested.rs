//! A key that its provider refused is left alone by the node that was told: one whose credential was refused (401) for 10 s
//! at least, one that was limited (429) for as long as `Retry-After` said (docs/configuration.md "Several keys").
//!
//! Calls that were made with the key before the refusal came may come after it, for as long as a connection and a way may
//! take. What strikes the node or the provider may keep words longer on their way, or lets the node forget.

use std::time::Duration;

use super::{Violation, violation};
use crate::evidence::Evidence;
use crate::history::{Keyed, Pass, Struck};

/// Connecting takes 1 s at most.
const ON_ITS_WAY: Duration = Duration::from_secs(2);
/// A suspension is of 10 s at least, from the first of the refusals that come of calls made together.
const SUSPENDED: Duration = Duration::from_secs(8);
/// What was sent into a cut comes at the latest so long after it.
const SENT_AGAIN: Duration = Duration::from_secs(7);

pub(super) fn judge(evidence: &Evidence) -> Vec<Violation> {
    let keyed = &evidence.history.keyed;
    let mut found = Vec::new();
    for refused in keyed {
        let rest = match refused.pass {
            Pass::Served => continue,
            Pass::Revoked => SUSPENDED,
            Pass::Wait(seconds) => Duration::from_secs(seconds),
        };
        let again = keyed.iter().find(|later| {
            let after = later.asked.since(refused.asked);
            let is_same = later.by == refused.by && later.credential == refused.credential;
            is_same && later.server == refused.server && after > ON_ITS_WAY && after < rest
        });
        if let Some(again) = again.filter(|again| !is_struck(evidence, refused, again)) {
            let what = format!("a key was used that had been refused: {again:?} after {refused:?}");
            found.push(violation("rested", Some(again.asked), what));
        }
    }
    found
}

fn is_struck(evidence: &Evidence, refused: &Keyed, again: &Keyed) -> bool {
    let concerns = |struck: &&Struck| {
        let names = [Some(&refused.server), refused.by.as_ref()];
        names.into_iter().flatten().any(|name| struck.machines.contains(name))
    };
    evidence.history.struck.iter().filter(concerns).any(|struck| {
        struck.at <= again.asked && struck.healed.is_none_or(|healed| healed + SENT_AGAIN >= refused.asked)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::samples::{at, evidence, struck};

    fn keyed(ms: u64, pass: Pass) -> Keyed {
        let (by, credential) = (Some("central-eu".to_owned()), "sk".to_owned());
        Keyed { server: "vendor".into(), by, credential, asked: at(ms), pass }
    }

    #[test]
    fn a_key_that_is_used_before_its_time_is_found() {
        for (pass, rest) in [(Pass::Revoked, 8_000), (Pass::Wait(5), 5_000)] {
            let mut evidence = evidence();
            evidence.history.keyed = vec![keyed(100, pass), keyed(100 + rest, Pass::Served)];
            assert_eq!(judge(&evidence), [], "its time is over");
            evidence.history.keyed[1].asked = at(99 + rest);
            assert_eq!(judge(&evidence).len(), 1);
            evidence.history.keyed[1].by = Some("central-us".into());
            assert_eq!(judge(&evidence), [], "another node knows nothing of it");
            evidence.history.keyed[1].by = Some("central-eu".into());
            evidence.history.struck.push(struck("crash", "central-eu", 3_000));
            assert_eq!(judge(&evidence), [], "it forgot");
        }
    }

    #[test]
    fn a_call_may_be_on_its_way() {
        let mut evidence = evidence();
        evidence.history.keyed = vec![keyed(100, Pass::Revoked), keyed(2_100, Pass::Revoked)];
        assert_eq!(judge(&evidence), []);
    }
}
