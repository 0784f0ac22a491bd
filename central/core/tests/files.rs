//! Operators' files: what reads, what is refused and where, and that what is shown can be applied again.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly, as tests do")]

use std::collections::BTreeSet;

use base::KeyHash;
use central_core::files::{self, Parsed, Source};
use central_core::plan::{Resolved, resolve};
use proptest::prelude::*;
use settings::Fault;
use wire::catalog::{Catalog, Change, Object, Scope};

const GOOD: &str = include_str!("files/good.yaml");

fn hash(secret: &[u8]) -> KeyHash {
    let mut out = [0; 32];
    out.iter_mut().zip(secret).for_each(|(out, byte)| *out = *byte);
    KeyHash(out)
}

fn source(text: &str) -> Source {
    Source { name: "mesh.yaml".into(), text: text.into() }
}

fn read(current: &Catalog, sources: &[Source]) -> Result<Parsed, Vec<Fault>> {
    let revoked = current.keys.values().filter(|key| key.revoked).map(|key| key.hash).collect();
    files::read(sources, current, &revoked, &hash)
}

fn faults(current: &Catalog, text: &str) -> Vec<String> {
    let faults: Vec<Fault> = match read(current, &[source(text)]) {
        Err(faults) => faults,
        Ok(parsed) => resolve(current, parsed, false, &BTreeSet::new()).faults,
    };
    faults.iter().map(ToString::to_string).collect()
}

fn resolved(current: &Catalog, text: &str, prune: bool) -> Resolved {
    resolve(current, read(current, &[source(text)]).unwrap(), prune, &BTreeSet::new())
}

fn applied(current: &Catalog, text: &str) -> Catalog {
    let resolved = resolved(current, text, true);
    assert_eq!(resolved.faults, []);
    let mut next = current.clone();
    resolved.changes.into_iter().for_each(|change| next.apply(change));
    next
}

#[test]
fn a_whole_file_reads_into_a_consistent_catalog() {
    let catalog = applied(&Catalog::default(), GOOD);
    let model = &catalog.models["llama-3:8b"];
    assert_eq!(model.price.unwrap().input.0, 150_000_000);
    assert_eq!(catalog.budgets["acme-month"].limit.0, 12_500_000_000);
    let app = Scope::App("acme".parse().unwrap(), "chat".parse().unwrap());
    assert_eq!(catalog.budgets["chat-day"].scope, app);
    assert_eq!(catalog.routes["smart"].targets.len(), 2);
}

#[test]
fn each_bad_input_says_where_and_what() {
    let text = include_str!("files/bad.yaml");
    let expected: Vec<_> =
        text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, line.split_once("#! ")?.1))).collect();
    assert!(expected.len() >= 30, "{}", expected.len());
    let got = faults(&Catalog::default(), text);
    for (line, words) in &expected {
        let place = format!("mesh.yaml:{line}:");
        let here: Vec<_> = got.iter().filter(|fault| fault.starts_with(&place)).collect();
        assert!(here.iter().any(|fault| fault.contains(words)), "{place} {words}\nhere: {here:#?}");
    }
    assert_eq!(got.len(), expected.len(), "{got:#?}");
}

#[test]
fn faults_of_the_whole_have_places_too() {
    let text = include_str!("files/inconsistent.yaml");
    let expected: Vec<_> =
        text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, line.split_once("#! ")?.1))).collect();
    let got = faults(&Catalog::default(), text);
    for (line, words) in &expected {
        let place = format!("mesh.yaml:{line}:");
        let here: Vec<_> = got.iter().filter(|fault| fault.starts_with(&place)).collect();
        assert!(here.iter().any(|fault| fault.contains(words)), "{place} {words}\nhere: {here:#?}");
    }
    assert_eq!(got.len(), expected.len(), "{got:#?}");
}

#[test]
fn text_that_is_not_yaml_says_where_and_spares_the_other_files() {
    let broken = Source { name: "broken.yaml".into(), text: "models: [\n".into() };
    let wrong = source("tenants:\n  - nam: acme\n");
    let faults = read(&Catalog::default(), &[broken, wrong]).unwrap_err();
    let files: Vec<_> = faults.iter().map(|fault| fault.file.as_str()).collect();
    assert_eq!(files, ["broken.yaml", "mesh.yaml", "mesh.yaml"]);
    assert!(faults[2].to_string().contains("did you mean \"name\"?"), "{}", faults[2]);
}

#[test]
fn applying_again_changes_nothing_and_a_revoked_key_stays_revoked() {
    let mut catalog = applied(&Catalog::default(), GOOD);
    assert!(resolved(&catalog, GOOD, true).changes.is_empty());
    let mut key = catalog.keys["acme-chat"].clone();
    key.revoked = true;
    catalog.apply(Change::Put(Object::Key(key)));
    assert!(resolved(&catalog, GOOD, true).changes.is_empty());
    let without_secret = "keys:\n  - {name: acme-chat, tenant: acme, app: chat, debug: true}\n";
    let kept = applied_upsert(&catalog, without_secret);
    assert_eq!(kept.keys["acme-chat"].hash, catalog.keys["acme-chat"].hash);
    assert!(kept.keys["acme-chat"].revoked);
}

#[test]
fn no_file_reopens_a_secret_that_was_revoked() {
    let mut catalog = applied(&Catalog::default(), GOOD);
    let mut key = catalog.keys["acme-chat"].clone();
    key.revoked = true;
    let shown = files::export(&catalog).to_string();
    catalog.apply(Change::Put(Object::Key(key.clone())));
    let got = faults(&catalog, &shown);
    assert!(got.len() == 1 && got[0].contains("].revoked: this secret was revoked, and"), "{got:?}");
    // Neither under another name, nor once its key has gone.
    let KeyHash(bytes) = key.hash;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let again = format!("keys:\n  - {{name: k, tenant: acme, app: chat, hash: \"sha256:{digits}\"}}\n");
    let none = Catalog::default();
    let got = files::read(&[source(&again)], &none, &BTreeSet::from([key.hash]), &hash).unwrap_err();
    assert!(got[0].to_string().starts_with("mesh.yaml:2:5: keys[0].revoked: "), "{}", got[0]);
    let fresh = "keys:\n  - {name: acme-chat, tenant: acme, app: chat, secret: sk-another-secret-000000}\n";
    assert!(!applied_upsert(&catalog, fresh).keys["acme-chat"].revoked);
}

fn applied_upsert(current: &Catalog, text: &str) -> Catalog {
    let mut next = current.clone();
    resolved(current, text, false).changes.into_iter().for_each(|change| next.apply(change));
    next
}

#[test]
fn a_plan_shows_what_changes_and_what_a_removal_breaks() {
    let catalog = applied(&Catalog::default(), GOOD);
    let dearer = GOOD.replace("input: 0.15", "input: 0.20");
    let plan = resolved(&catalog, &dearer, true).plan.to_string();
    assert_eq!(
        plan,
        "~ model llama-3:8b\n    price.input: 0.15 -> 0.2\n~ credential of provider openai\n0 to add, 1 to change, 0 to remove, on epoch 0.\n"
    );
    let from = GOOD.find("  - name: llama-3:8b").unwrap();
    let to = GOOD.find("  - name: embed").unwrap();
    let without = format!("{}{}", &GOOD[..from], &GOOD[to..]);
    let refused = resolved(&catalog, &without, true);
    let plan = refused.plan.to_string();
    assert!(plan.starts_with("- model llama-3:8b\n"), "{plan}");
    for user in ["breaks group chat", "breaks route smart"] {
        assert!(plan.contains(user), "{plan}");
    }
    assert_eq!(refused.faults.len(), 2, "{:?}", refused.faults);
}

#[test]
fn a_plan_remarks_on_what_no_call_reaches_and_what_no_budget_pays() {
    let catalog = applied(&Catalog::default(), GOOD);
    let text = "models:\n  - {name: far, replicas: [{name: a, region: moon, url: 'http://m:1'}]}\n\
                \x20 - {name: open, price: {input: 1, output: 1}, provider: openai}\nbudgets:\n\
                \x20 - {name: b, tenant: acme, unit: usd, window: day, limit: 1}\n";
    let regions = BTreeSet::from(["eu".parse().unwrap()]);
    let plan = resolve(&catalog, read(&catalog, &[source(text)]).unwrap(), false, &regions).plan.to_string();
    for remark in [
        "! replica a: region moon has no edge, so that no call reaches it",
        "! no `price`, so that every call is refused under budgets acme-month, acme-soft, b",
        "! neither `output_cap` nor `context`, so that calls without max_tokens are refused under budgets",
        ": no `price`, so that every call is refused (unbounded_cost)",
    ] {
        assert!(plan.contains(remark), "{remark} is not in\n{plan}");
    }
    assert!(resolved(&catalog, text, false).plan.to_string().matches("no edge").count() == 0);
}

proptest! {
    #[test]
    fn what_is_shown_reads_back(pick in proptest::collection::vec(any::<(u64, u32, bool)>(), 3)) {
        let mut catalog = applied(&Catalog::default(), GOOD);
        for ((price, number, flag), model) in pick.iter().zip(catalog.models.values_mut()) {
            if let Some(known) = &mut model.price {
                known.input.0 = *price;
                known.cached_input = flag.then_some(base::NanoUsd(price / 2));
            }
            model.output_cap = None;
            model.timeouts.total_ms = 86_400_000;
            model.timeouts.idle_ms = 1 + number % 86_000_000;
        }
        let shown = files::export(&catalog).to_string();
        prop_assert_eq!(applied(&Catalog::default(), &shown), catalog);
    }

    #[test]
    fn no_text_breaks_the_reader(at in 0..GOOD.len(), junk in "[ -~\n\t]{0,6}") {
        let mut text = GOOD.to_owned();
        let at = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.insert_str(at, &junk);
        if let Ok(parsed) = read(&Catalog::default(), &[source(&text)]) {
            drop(resolve(&Catalog::default(), parsed, true, &BTreeSet::new()));
        }
    }
}
