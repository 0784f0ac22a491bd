//! Operators' files: what reads, what is refused and where, and that what is shown can be applied again.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly, as tests do")]

use std::collections::BTreeSet;

use base::{KeyHash, NanoUsd, Price, PriceVersion, Rates, Tier, Tokens, Unit, WallMs};
use central_core::KeyOf;
use central_core::files::{self, Parsed, Source};
use central_core::plan::{Known, Resolved, resolve};
use proptest::prelude::*;
use settings::Fault;
use wire::catalog::{Catalog, Change, Object, ObjectId, Scope, Window};

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
        Ok(parsed) => resolve(current, parsed, false, &sealed()).faults,
    };
    faults.iter().map(ToString::to_string).collect()
}

/// What is known once the good file was applied.
fn sealed() -> Known {
    let of = |key: &str| KeyOf { provider: "vendor".parse().unwrap(), key: key.parse().unwrap() };
    Known { sealed: BTreeSet::from(["team-a", "team-b"].map(of)), ..Known::default() }
}

fn resolved(current: &Catalog, text: &str, prune: bool) -> Resolved {
    resolve(current, read(current, &[source(text)]).unwrap(), prune, &sealed())
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
    assert_eq!(model.price.as_ref().unwrap().versions[0].rates.input.0, 150_000_000);
    assert_eq!(catalog.budgets["acme-month"].limit.0, 12_500_000_000);
    let app = Scope::App("acme".parse().unwrap(), "chat".parse().unwrap());
    assert_eq!(catalog.budgets["chat-day"].scope, app);
    assert_eq!(catalog.routes["smart"].targets.len(), 2);
    let keys = &catalog.providers["vendor"].keys;
    let shown: Vec<_> = keys.iter().map(|key| (key.name.as_str(), key.weight, key.concurrency)).collect();
    assert_eq!(shown, [("team-a", 3, Some(50)), ("team-b", 1, None)]);
    assert!(catalog.providers["openai"].keys.is_empty());
}

#[test]
fn a_key_keeps_the_credential_that_is_sealed_and_a_new_one_needs_its_own() {
    let text =
        "providers: [{name: vendor, base_url: 'https://v.example', keys: [{name: team-a}, {name: team-c}]}]";
    assert_eq!(
        faults(&Catalog::default(), text),
        ["mesh.yaml:1:82: providers[0].keys[1].credential: key team-c has no credential yet; give it one"]
    );
    let kept = resolved(&Catalog::default(), &text.replace("team-c", "team-b"), false);
    assert!(kept.faults.is_empty() && kept.credentials.is_empty());
    let parsed = read(&Catalog::default(), &[source(GOOD)]).unwrap();
    let secrets: Vec<_> =
        parsed.credentials.iter().map(|one| (one.of.to_string(), one.secret.as_str())).collect();
    let expected = [
        ("provider openai".to_owned(), "sk-provider"),
        ("key team-a of provider vendor".to_owned(), "sk-vendor-a"),
        ("key team-b of provider vendor".to_owned(), "sk-vendor-b"),
    ];
    assert_eq!(secrets, expected);
    let catalog = applied(&Catalog::default(), GOOD);
    assert!(!files::export(&catalog).to_string().contains("sk-vendor"));
}

/// What a provider's account may have is counted over all edges, as a budget is.
#[test]
fn a_providers_limits_are_budgets_that_come_and_go_with_them() {
    let catalog = applied(&Catalog::default(), GOOD);
    let budget = &catalog.budgets["vendor.tokens_per_min"];
    let of = (&budget.scope, budget.unit, budget.window, budget.limit.0);
    let vendor = Scope::Provider("vendor".parse().unwrap());
    assert_eq!(of, (&vendor, Unit::Tokens, Window::Rolling { seconds: 60 }, 90_000));
    let shown = files::export(&catalog);
    let providers = shown["providers"].as_array().unwrap();
    let vendor = providers.iter().find(|provider| provider["name"] == "vendor").unwrap();
    assert_eq!(vendor["limits"], serde_json::json!({"requests_per_min": 600, "tokens_per_min": 90_000}));
    assert!(!shown["budgets"].to_string().contains("per_min"), "{shown}");
    let fewer = GOOD
        .replace("limits: {requests_per_min: 600, tokens_per_min: 90000}", "limits: {requests_per_min: 60}");
    // Whether or not objects that no file mentions go.
    for prune in [false, true] {
        let changes = resolved(&catalog, &fewer, prune).changes;
        let gone = Change::Remove(ObjectId::Budget("vendor.tokens_per_min".parse().unwrap()));
        assert!(changes.len() == 2 && changes.contains(&gone), "{changes:?}");
    }
    let kept = resolved(&catalog, "tenants: [{name: other}]", false);
    assert_eq!(kept.changes.len(), 1);
    let taken = "budgets: [{name: x.tokens_per_min, provider: vendor, unit: tokens, window: day, limit: 1}]";
    let faults = faults(&catalog, taken);
    assert!(faults.len() == 1 && faults[0].contains("kept for a limit of a provider"), "{faults:?}");
    let long = format!(
        "providers: [{{name: {}, base_url: 'https://v.example', limits: {{requests_per_min: 1}}}}]",
        "v".repeat(47)
    );
    assert!(read(&catalog, &[source(&long)]).unwrap_err()[0].what.contains("46 characters"));
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
        "~ model llama-3:8b\n    price.input: 0.15 -> 0.2\n~ credential of provider openai\n~ credential of key team-a of provider vendor\n~ credential of key team-b of provider vendor\n0 to add, 1 to change, 0 to remove, on epoch 0.\n"
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
    let known = Known { regions: BTreeSet::from(["eu".parse().unwrap()]), ..sealed() };
    let plan = resolve(&catalog, read(&catalog, &[source(text)]).unwrap(), false, &known).plan.to_string();
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

const PRICES: &str = "models:
  - name: m
    provider: p
    context: 1000000
    price:
      - {input: 2, output: 8, cached_input: 0.5, cache_write: 2.5, audio_input: 40, audio_output: 80, image: 0.001}
      - from: 2027-01-01T01:00:00+01:00
        input: 1
        output: 4
        reasoning: 3
        second: 0.0001
        tiers: [{above: 200000, input: 2}, {above: 400000, output: 16, call: 0.01}]
providers: [{name: p, base_url: 'https://api.example'}]
";

#[test]
fn prices_read_with_their_kinds_tiers_and_versions() {
    let catalog = applied(&Catalog::default(), PRICES);
    let price = catalog.models["m"].price.as_ref().unwrap();
    let [first, second] = price.versions.as_slice() else { panic!("{price:?}") };
    assert_eq!((first.from.as_millis(), second.from.as_millis()), (0, 1_798_761_600_000));
    assert_eq!(first.rates.cache_write, Some(NanoUsd(2_500_000_000)));
    assert_eq!(first.rates.image, NanoUsd(1_000_000));
    assert_eq!(second.rates.reasoning, Some(NanoUsd(3_000_000_000)));
    let [long, longer] = second.tiers.as_slice() else { panic!("{second:?}") };
    assert_eq!((long.rates.input, long.rates.output), (NanoUsd(2_000_000_000), NanoUsd(4_000_000_000)));
    assert_eq!((longer.rates.input, longer.rates.call), (NanoUsd(1_000_000_000), NanoUsd(10_000_000)));
    assert_eq!(longer.rates.reasoning, second.rates.reasoning, "what a tier leaves out is as below it");
    assert_eq!(applied(&Catalog::default(), &files::export(&catalog).to_string()), catalog);
}

#[test]
fn a_plan_tells_of_a_new_version_and_of_one_that_is_rewritten() {
    let rest = "\nproviders: [{name: p, base_url: 'https://api.example'}]";
    let one = &format!("models: [{{name: m, provider: p, price: {{input: 2, output: 8}}}}]{rest}");
    let catalog = applied(&Catalog::default(), one);
    let later = "{from: 2027-01-01T00:00:00Z, input: 1, output: 4}";
    let two = &format!("models: [{{name: m, provider: p, price: [{{input: 2, output: 8}}, {later}]}}]{rest}");
    let plan = resolved(&catalog, two, false).plan.to_string();
    let added =
        "~ model m\n    price[1].from: 2027-01-01T00:00:00Z\n    price[1].input: 1\n    price[1].output: 4\n";
    assert_eq!(plan.replace("+ ", ""), format!("{added}0 to add, 1 to change, 0 to remove, on epoch 0.\n"));
    let catalog = applied(&catalog, two);
    let rewritten = two.replace("input: 2", "input: 3");
    let plan = resolved(&catalog, &rewritten, false).plan.to_string();
    assert!(plan.contains("price[0].input: 2 -> 3"), "{plan}");
    assert!(plan.contains("! a version of the price changes or goes"), "{plan}");
    let named = |name: &str| {
        let text = format!("models: [{{name: n, provider: p, context: 1, tokenizer: {name}}}]{rest}");
        resolved(&catalog, &text, false).plan.to_string().contains("all count alike")
    };
    let pinned = format!("llama-3@sha256:{}", "0a".repeat(32));
    assert_eq!((named("llama-3"), named(&pinned), named("o200k_base")), (true, false, false));
    let late = &format!("models: [{{name: m, provider: p, price: {later}}}]{rest}");
    let plan = resolved(&Catalog::default(), late, false).plan.to_string();
    assert!(plan.contains("! no price before the first `from`"), "{plan}");
}

/// A price that uses every part of the form, drawn.
fn a_price(amount: u64, number: u32, flag: bool) -> Price {
    let kind = |share: u64| flag.then_some(NanoUsd(amount / share));
    let rates = Rates {
        input: NanoUsd(amount),
        cached_input: kind(2),
        cache_write: kind(3),
        audio_input: kind(4),
        output: NanoUsd(number.into()),
        reasoning: kind(5),
        audio_output: kind(6),
        image: NanoUsd((number % 3).into()),
        second: NanoUsd((number % 4).into()),
        call: NanoUsd((number % 5).into()),
    };
    let longer = Rates { cached_input: Some(NanoUsd(7)), call: NanoUsd(9), ..rates };
    let tiers = vec![Tier { above: Tokens(number.into()), rates: longer }];
    let first = PriceVersion { from: WallMs::default(), rates, tiers };
    let later = PriceVersion { from: WallMs::from_millis(1 + u64::from(number)), rates, tiers: Vec::new() };
    Price { versions: if flag { vec![first, later] } else { vec![first] } }
}

proptest! {
    #[test]
    fn what_is_shown_reads_back(pick in proptest::collection::vec(any::<(u64, u32, bool)>(), 3)) {
        let mut catalog = applied(&Catalog::default(), GOOD);
        for ((price, number, flag), model) in pick.iter().zip(catalog.models.values_mut()) {
            if model.price.is_some() {
                model.price = Some(a_price(*price, *number, *flag));
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
            drop(resolve(&Catalog::default(), parsed, true, &sealed()));
        }
    }
}
