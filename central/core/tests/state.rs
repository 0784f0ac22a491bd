//! The state's rules, seen through its one door.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly, as tests do")]

use std::net::SocketAddr;

use base::{Epoch, KeyHash, Name, Priority, Revision, Stamp, WallMs};
use central_core::{
    Applied, CatalogChange, Command, Effect, Entry, KEPT_EPOCHS, KeyOf, LogMs, Refusal, Registration, Reply,
    Sealed, State,
};
use proptest::prelude::*;
use wire::calendar::Zone;
use wire::catalog::{
    App, Budget, Catalog, Change, Dialect, Key, Limits, Mode, Object, ObjectId, Provider, ProviderKey, Scope,
    Tenant, Window,
};
use wire::control::Hello;

struct Log {
    state: State,
    revision: u64,
}

impl Log {
    fn new() -> Self {
        Self { state: State::default(), revision: 0 }
    }

    fn apply(&mut self, command: Command) -> Applied {
        self.revision += 1;
        let at = WallMs::from_millis(1_000 * self.revision);
        self.state.apply(Revision(self.revision), &Entry { at, clock: LogMs(at.as_millis()), command })
    }

    fn change(&mut self, changes: Vec<Change>) -> Applied {
        let base = self.state.epoch();
        self.apply(change(base, changes))
    }
}

fn change(base: Epoch, changes: Vec<Change>) -> Command {
    Command::ChangeCatalog(CatalogChange {
        base,
        changes,
        credentials: Vec::new(),
        by: "ops".into(),
        note: String::new(),
    })
}

fn tenant(name: &str) -> Object {
    Object::Tenant(Tenant {
        name: name.parse().unwrap(),
        limits: Limits::default(),
        max_stale_s: 3_600,
        weight: 1,
        priority: Priority::Interactive,
    })
}

fn key(revoked: bool) -> Object {
    Object::Key(Key {
        name: "k".parse().unwrap(),
        tenant: "acme".parse().unwrap(),
        app: "chat".parse().unwrap(),
        hash: KeyHash([7; 32]),
        limits: Limits::default(),
        models: None,
        debug: false,
        revoked,
        priority: Priority::Interactive,
    })
}

fn budget(unit: base::Unit, limit: u64) -> Object {
    Object::Budget(Budget {
        id: base::BudgetId(99),
        name: "b".parse().unwrap(),
        scope: Scope::Tenant("acme".parse().unwrap()),
        unit,
        window: Window::Total,
        zone: Zone::default(),
        limit: base::Amount(limit),
        mode: Mode::Strict,
        thresholds: Vec::new(),
        horizon_ms: 1_000,
    })
}

fn base_objects() -> Vec<Change> {
    let app =
        App { tenant: "acme".parse().unwrap(), name: "chat".parse().unwrap(), limits: Limits::default() };
    vec![Change::Put(tenant("acme")), Change::Put(Object::App(app)), Change::Put(key(false))]
}

fn registration(boot: u64) -> Command {
    let mesh: SocketAddr = "127.0.0.1:4000".parse().unwrap();
    let hello = Hello { level: 1, build: "test".into(), boot, resume: None, last: None, mesh, have: None };
    Command::Register(Registration { edge: "e1".parse().unwrap(), region: "eu".parse().unwrap(), hello })
}

#[test]
fn a_change_is_one_epoch_whole_or_not_at_all() {
    let mut log = Log::new();
    let first = log.change(base_objects());
    assert_eq!(first.reply, Reply::Changed(Epoch(1)));
    let Some(Effect::Published { stamp, from, epoch, changes }) = first.effects.last() else { panic!() };
    assert_eq!((*stamp, *from, *epoch), (log.state.catalog_stamp(), Epoch(0), Epoch(1)));
    assert_eq!(changes.len(), 3);

    let dangling = log.change(vec![
        Change::Put(tenant("other")),
        Change::Remove(ObjectId::Tenant("acme".parse().unwrap())),
    ]);
    let Reply::Refused(Refusal::Invalid(why)) = dangling.reply else { panic!() };
    assert_eq!(why.len(), 2, "{why:?}");
    assert_eq!((log.state.epoch(), dangling.effects), (Epoch(1), vec![]));
    assert!(!log.state.catalog().tenants.contains_key("other"));

    let same = log.change(base_objects());
    assert_eq!((same.reply, same.effects), (Reply::Unchanged(Epoch(1)), vec![]));
    let late = log.apply(change(Epoch(0), vec![Change::Put(tenant("late"))]));
    assert_eq!(late.reply, Reply::Refused(Refusal::Conflict { base: Epoch(0), now: Epoch(1) }));
}

#[test]
fn a_rollback_is_a_new_epoch_that_revives_no_revoked_key() {
    let mut log = Log::new();
    log.change(base_objects());
    log.change(vec![Change::Put(tenant("beta"))]);
    log.change(vec![Change::Put(key(true))]);
    let late = log.apply(Command::Rollback { base: Epoch(2), to: Epoch(1), by: "ops".into() });
    assert!(matches!(late.reply, Reply::Refused(Refusal::Conflict { .. })));
    let back = log.apply(Command::Rollback { base: Epoch(3), to: Epoch(1), by: "ops".into() });
    assert_eq!(back.reply, Reply::Changed(Epoch(4)));
    assert!(!log.state.catalog().tenants.contains_key("beta"));
    assert!(log.state.catalog().keys["k"].revoked);
    let never = log.apply(Command::Rollback { base: Epoch(4), to: Epoch(9), by: "ops".into() });
    assert!(matches!(never.reply, Reply::Refused(Refusal::NoSuchEpoch { .. })));
}

#[test]
fn revocation_outlives_its_key_and_every_epoch_before() {
    let mut log = Log::new();
    log.change(base_objects());
    log.change(vec![Change::Put(key(true))]);
    let reopened = |log: &mut Log| {
        let reply = log.change(vec![Change::Put(key(false))]).reply;
        let Reply::Refused(Refusal::Invalid(why)) = reply else { panic!("{reply:?}") };
        assert!(why[0].contains("for good"), "{why:?}");
    };
    reopened(&mut log);
    log.change(vec![Change::Remove(ObjectId::Key("k".parse().unwrap()))]);
    reopened(&mut log);
    let base = log.state.epoch();
    log.apply(Command::Rollback { base, to: Epoch(1), by: "ops".into() });
    assert!(log.state.catalog().keys["k"].revoked);
    reopened(&mut log);
}

#[test]
fn a_budget_keeps_its_number_while_it_means_the_same() {
    let mut log = Log::new();
    log.change(base_objects());
    let number = |log: &Log| log.state.catalog().budgets["b"].id;
    log.change(vec![Change::Put(budget(base::Unit::Tokens, 10))]);
    let first = number(&log);
    log.change(vec![Change::Put(budget(base::Unit::Tokens, 20))]);
    assert_eq!(number(&log), first);
    log.change(vec![Change::Put(budget(base::Unit::Requests, 20))]);
    assert_ne!(number(&log), first);
    log.change(vec![Change::Remove(ObjectId::Budget("b".parse().unwrap()))]);
    log.change(vec![Change::Put(budget(base::Unit::Tokens, 5))]);
    assert_eq!(number(&log), first);
}

#[test]
fn an_edge_is_brought_forward_by_a_delta_or_gets_the_whole() {
    let mut log = Log::new();
    log.change(base_objects());
    let (stamp, mut edge) = (log.state.catalog_stamp(), log.state.catalog().clone());
    log.change(vec![Change::Put(tenant("beta"))]);
    log.change(vec![Change::Put(key(true)), Change::Remove(ObjectId::Tenant("beta".parse().unwrap()))]);
    log.state.delta(stamp, Epoch(1)).unwrap().into_iter().for_each(|change| edge.apply(change));
    edge.epoch = log.state.epoch();
    assert_eq!(&edge, log.state.catalog());
    for round in 0..KEPT_EPOCHS {
        log.change(vec![Change::Put(tenant(if round % 2 == 0 { "gamma" } else { "delta" }))]);
        log.change(vec![Change::Remove(ObjectId::Tenant("gamma".parse().unwrap()))]);
    }
    assert_eq!(log.state.delta(stamp, Epoch(1)), None);
    let future = Stamp { era: base::Era(1), ..stamp };
    assert_eq!(log.state.delta(future, Epoch(1)), None);
    assert_eq!(log.state.history().records().count(), KEPT_EPOCHS);
}

#[test]
fn the_newest_process_of_an_identity_wins() {
    let mut log = Log::new();
    let first = log.apply(registration(1));
    assert!(matches!(first.effects[0], Effect::Welcome { boot: 1, .. }), "{first:?}");
    let second = log.apply(registration(2));
    assert!(matches!(second.effects[0], Effect::Superseded { boot: 1, .. }), "{second:?}");
    let edge: Name = "e1".parse().unwrap();
    log.apply(Command::Bye { edge: edge.clone(), boot: 1 });
    assert_eq!(log.state.nodes().len(), 1);
    let bye = log.apply(Command::Bye { edge, boot: 2 });
    assert!(matches!(bye.effects[..], [Effect::NodesChanged(_)]));
    assert_eq!(log.state.nodes(), []);
}

#[test]
fn a_batch_answers_each_and_holds_no_batch() {
    let mut log = Log::new();
    let reply = log.apply(Command::Batch(vec![
        registration(1),
        Command::Batch(vec![]),
        Command::RaiseLevel { to: 7 },
        Command::RaiseLevel { to: 6 },
    ]));
    assert_eq!(reply.effects.last(), Some(&Effect::LevelRaised(7)));
    let Reply::Batch(replies) = reply.reply else { panic!() };
    assert!(matches!(
        replies[..],
        [
            Reply::Registered(_),
            Reply::Refused(Refusal::Nested),
            Reply::Done,
            Reply::Refused(Refusal::Level { .. })
        ]
    ));
}

#[test]
fn a_credential_lives_as_long_as_an_epoch_mentions_its_provider() {
    let mut log = Log::new();
    let name: Name = "p".parse().unwrap();
    let provider = Provider {
        name: name.clone(),
        dialect: Dialect::Openai,
        base_url: "https://p.example".into(),
        keys: Vec::new(),
    };
    let of = KeyOf { provider: name.clone(), key: "default".parse().unwrap() };
    let sealed = Sealed { key: 1, nonce: [0; 12], ciphertext: vec![1, 2, 3] };
    let stray = log.apply(Command::ChangeCatalog(CatalogChange {
        base: Epoch(0),
        changes: vec![],
        credentials: vec![(of.clone(), sealed.clone())],
        by: "ops".into(),
        note: String::new(),
    }));
    assert!(matches!(stray.reply, Reply::Refused(Refusal::Invalid(_))));
    log.apply(Command::ChangeCatalog(CatalogChange {
        base: Epoch(0),
        changes: vec![Change::Put(Object::Provider(provider))],
        credentials: vec![(of.clone(), sealed)],
        by: "ops".into(),
        note: String::new(),
    }));
    log.change(vec![Change::Remove(ObjectId::Provider(name))]);
    assert!(log.state.credentials().contains_key(&of));
    for round in 0..KEPT_EPOCHS {
        log.change(vec![Change::Put(tenant(&format!("t{round}")))]);
    }
    assert!(!log.state.credentials().contains_key(&of));
}

/// Two keys of one provider: each has its credential, and a key without one is not taken.
#[test]
fn a_key_that_goes_takes_its_credential_along_and_none_comes_without() {
    let mut log = Log::new();
    let name: Name = "p".parse().unwrap();
    let key = |key: &str| ProviderKey {
        name: key.parse().unwrap(),
        weight: 1,
        concurrency: None,
        requests_per_min: None,
        tokens_per_min: None,
    };
    let provider = |keys: &[&str]| {
        Change::Put(Object::Provider(Provider {
            name: name.clone(),
            dialect: Dialect::Openai,
            base_url: "https://p.example".into(),
            keys: keys.iter().map(|one| key(one)).collect(),
        }))
    };
    let of = |key: &str| KeyOf { provider: name.clone(), key: key.parse().unwrap() };
    let sealed = Sealed { key: 1, nonce: [0; 12], ciphertext: vec![1] };
    let put = |log: &mut Log, keys: &[&str], given: &[&str]| {
        let credentials = given.iter().map(|key| (of(key), sealed.clone())).collect();
        let (base, changes) = (log.state.epoch(), vec![provider(keys)]);
        let change = CatalogChange { base, changes, credentials, by: "ops".into(), note: String::new() };
        log.apply(Command::ChangeCatalog(change)).reply
    };
    let Reply::Refused(Refusal::Invalid(why)) = put(&mut log, &["a", "b"], &["a"]) else { panic!() };
    assert_eq!(why, ["provider p: keys[1].credential: key b has no credential yet; give it one"]);
    assert!(matches!(put(&mut log, &["a"], &["a", "b"]), Reply::Refused(Refusal::Invalid(_))));
    assert!(matches!(put(&mut log, &["a", "b"], &["a", "b"]), Reply::Changed(_)));
    assert!(matches!(put(&mut log, &["a"], &[]), Reply::Changed(_)));
    assert!(log.state.credentials().contains_key(&of("b")), "an epoch to go back to has it");
    for round in 0..KEPT_EPOCHS {
        log.change(vec![Change::Put(tenant(&format!("t{round}")))]);
    }
    assert_eq!(log.state.credentials().keys().collect::<Vec<_>>(), [&of("a")]);
}

proptest! {
    #[test]
    fn equal_logs_give_equal_states_and_every_kept_epoch_can_be_made_again(
        steps in proptest::collection::vec((0u8..6, 0u8..4), 1..40),
    ) {
        let (mut one, mut two) = (Log::new(), Log::new());
        let mut contents: Vec<Catalog> = vec![one.state.catalog().clone()];
        for (kind, name) in steps {
            let name = format!("t{name}");
            let command = match kind {
                0 | 1 => change(one.state.epoch(), vec![Change::Put(tenant(&name))]),
                2 | 3 => change(one.state.epoch(), vec![Change::Remove(ObjectId::Tenant(name.parse().unwrap()))]),
                4 => registration(u64::from(kind)),
                _ => Command::Rollback {
                    base: one.state.epoch(),
                    to: Epoch(one.state.epoch().0 / 2),
                    by: "ops".into(),
                },
            };
            prop_assert_eq!(one.apply(command.clone()), two.apply(command));
            if one.state.epoch().0 == contents.len() as u64 {
                contents.push(one.state.catalog().clone());
            }
        }
        prop_assert_eq!(one.state.fingerprint(), two.state.fingerprint());
        let bytes = wire::codec::encode(&one.state).unwrap();
        prop_assert_eq!(&wire::codec::decode::<State>(&bytes).unwrap(), &one.state);
        for content in &contents {
            let made = one.state.history().content(one.state.catalog(), content.epoch);
            prop_assert_eq!(made.as_ref(), Some(content));
        }
    }
}
