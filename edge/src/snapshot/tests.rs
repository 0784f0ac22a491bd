//! Installing configurations over one another.

use base::{Amount, BudgetId, Era, Priority, Revision, TenantName, Unit};
use edge_core::limits::Ask;
use wire::calendar::Zone;
use wire::catalog::{App, Key, Limits, Mode, Scope, Tenant, Window};

use super::*;

#[test]
fn an_older_configuration_is_ignored_and_age_counts_from_the_last_proof() {
    let snapshots = Snapshots::new("here".parse().unwrap());
    let at = |s| Mono::ZERO + Duration::from_secs(s);
    assert_eq!(snapshots.age(at(1)), Duration::MAX);
    assert!(snapshots.restore(stamp(5), Catalog::default(), at(1), Duration::from_secs(60)));
    assert_eq!(snapshots.age(at(2)), Duration::from_secs(61));
    assert!(!snapshots.install(stamp(4), Catalog::default(), at(3)));
    snapshots.refreshed(at(3));
    assert_eq!(snapshots.age(at(4)), Duration::from_secs(1));
    assert_eq!(snapshots.load().stamp(), stamp(5));
}

#[test]
fn a_key_leads_to_its_holder_its_budgets_and_a_gate_that_outlives_the_snapshot() {
    let snapshots = Snapshots::new("here".parse().unwrap());
    let mut catalog = catalog();
    snapshots.install(stamp(1), catalog.clone(), Mono::ZERO);
    let first = Arc::clone(snapshots.load().principal(&KeyHash([7; 32])).unwrap());
    assert_eq!((first.app.as_str(), first.budgets.len()), ("web", 1));
    assert!(first.may_ask("anything"));
    first.key_gate.lock().enter(Mono::ZERO, Ask { enters: true, ..Ask::default() });

    catalog.keys.values_mut().for_each(|key| key.models = Some(vec!["small".parse().unwrap()]));
    snapshots.install(stamp(2), catalog, Mono::ZERO);
    let second = Arc::clone(snapshots.load().principal(&KeyHash([7; 32])).unwrap());
    assert_eq!(second.key_gate.lock().in_progress(), (1, 0));
    assert!(second.may_ask("small") && !second.may_ask("big"));
    assert!(snapshots.load().principal(&KeyHash([8; 32])).is_none());
}

#[tokio::test]
async fn watchers_hear_of_each_change() {
    let snapshots = Snapshots::new("here".parse().unwrap());
    let mut changes = snapshots.watch();
    snapshots.install_nodes(Vec::new());
    changes.next().await;
    snapshots.install(stamp(1), Catalog::default(), Mono::ZERO);
    changes.next().await;
}

fn stamp(revision: u64) -> Stamp {
    Stamp { era: Era(1), revision: Revision(revision) }
}

fn catalog() -> Catalog {
    let mut catalog = Catalog::default();
    let tenant: TenantName = "acme".parse().unwrap();
    catalog.tenants.insert(
        tenant.clone(),
        Tenant {
            name: tenant.clone(),
            limits: Limits::default(),
            max_stale_s: 60,
            weight: 1,
            priority: Priority::Interactive,
        },
    );
    let key: Name = "k1".parse().unwrap();
    let app: Name = "web".parse().unwrap();
    let limits = Limits::default();
    catalog
        .apps
        .insert((tenant.clone(), app.clone()), App { tenant: tenant.clone(), name: app.clone(), limits });
    catalog.keys.insert(
        key.clone(),
        Key {
            name: key,
            tenant: tenant.clone(),
            app: app.clone(),
            hash: KeyHash([7; 32]),
            limits: Limits::default(),
            models: None,
            debug: false,
            revoked: false,
            priority: Priority::Interactive,
        },
    );
    for (number, scope) in [(1, Scope::App(tenant, app)), (2, Scope::Key("other".parse().unwrap()))] {
        let name: Name = format!("b{number}").parse().unwrap();
        let budget = Budget {
            id: BudgetId(number),
            name: name.clone(),
            scope,
            unit: Unit::Requests,
            window: Window::Day,
            zone: Zone::default(),
            limit: Amount(1),
            mode: Mode::Strict,
            thresholds: Vec::new(),
            horizon_ms: 60_000,
        };
        catalog.budgets.insert(name, budget);
    }
    catalog
}
