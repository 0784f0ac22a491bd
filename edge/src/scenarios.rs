//! Which scenarios receipts tell. Callers choose the names, and central keeps hourly totals of each, so an edge tells at
//! most so many of a tenant within an hour; the calls of all others are told as of one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{Mono, Name, TenantName};
use seam::Lock;

/// Scenarios of one tenant that are told within an hour.
const MOST: usize = 1_000;
/// Stands for all scenarios beyond.
const MORE: &str = "_more";
const HOUR: Duration = Duration::from_secs(3_600);

/// The scenarios told since an hour began.
#[derive(Debug, Default)]
pub(crate) struct Scenarios(Lock<Told>);

#[derive(Debug, Default)]
struct Told {
    began: Mono,
    of: BTreeMap<TenantName, BTreeSet<Name>>,
}

impl Scenarios {
    /// What the receipt of a call tells that said it belongs to `said`.
    pub(crate) fn told(&self, tenant: &TenantName, said: Option<&Name>, now: Mono) -> Option<Name> {
        let said = said?;
        let mut told = self.0.lock();
        if now.since(told.began) >= HOUR {
            *told = Told { began: now, of: BTreeMap::new() };
        }
        let of_tenant = told.of.entry(tenant.clone()).or_default();
        if of_tenant.contains(said) {
            return Some(said.clone());
        }
        if of_tenant.len() < MOST {
            of_tenant.insert(said.clone());
            if of_tenant.len() == MOST {
                tracing::warn!(%tenant, most = MOST, "receipts of this hour tell no more scenarios of a tenant");
            }
            return Some(said.clone());
        }
        MORE.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_that_names_ever_new_scenarios_fills_neither_memory_nor_another_tenants_share() {
        let scenarios = Scenarios::default();
        let tell = |tenant: &str, said: &str, now: Mono| {
            let told = scenarios.told(&tenant.parse().unwrap(), Some(&said.parse().unwrap()), now);
            told.unwrap().to_string()
        };
        let start = Mono::default() + HOUR;
        for n in 0..2 * MOST {
            let said = format!("s-{n}");
            assert_eq!(tell("acme", &said, start), if n < MOST { said.as_str() } else { MORE });
        }
        assert_eq!(tell("acme", "s-7", start), "s-7");
        assert_eq!(tell("globex", "support", start), "support");
        assert_eq!(tell("acme", "late", start + HOUR), "late");
        assert_eq!(scenarios.told(&"acme".parse().unwrap(), None, start), None);
    }
}
