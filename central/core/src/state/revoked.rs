//! Revocation is for good: a secret that was revoked once opens nothing again, whatever files or epochs say later. While
//! its key is configured, the key itself tells; once the key has gone, its hash is remembered here.

use std::collections::BTreeSet;

use base::KeyHash;
use wire::catalog::Catalog;

use super::State;

/// Most hashes of gone keys remembered: 2 MiB of state. Beyond, revoked keys must stay configured.
const MOST_REMEMBERED: usize = 65_536;

impl State {
    /// Hashes of every secret that was ever revoked.
    #[must_use]
    pub fn revoked(&self) -> BTreeSet<KeyHash> {
        let configured = self.catalog.keys.values().filter(|key| key.revoked).map(|key| key.hash);
        configured.chain(self.revoked.iter().copied()).collect()
    }

    /// Why `next` may not follow, as far as revocation goes.
    pub(super) fn revocation_faults(&self, next: &Catalog) -> Vec<String> {
        let revoked = self.revoked();
        let reopened = next.keys.values().filter(|key| !key.revoked && revoked.contains(&key.hash));
        let mut faults: Vec<_> = reopened
            .map(|key| {
                format!("key {}: its secret was revoked, which is for good; give it another", key.name)
            })
            .collect();
        if left_behind(revoked, next).len() > MOST_REMEMBERED {
            faults.push(format!(
                "revoked keys may not go: {MOST_REMEMBERED} secrets of gone keys are remembered already; keep the key, revoked"
            ));
        }
        faults
    }

    /// What must be remembered once `next` is in force.
    pub(super) fn remembered(&self, next: &Catalog) -> BTreeSet<KeyHash> {
        left_behind(self.revoked(), next)
    }
}

/// Those hashes that no configured key has.
fn left_behind(mut revoked: BTreeSet<KeyHash>, next: &Catalog) -> BTreeSet<KeyHash> {
    for key in next.keys.values() {
        revoked.remove(&key.hash);
    }
    revoked
}
