//! What operators see of calls that were refused before they were admitted.

use std::collections::BTreeMap;

use base::Unit;
use serde_json::{Value, json};
use wire::catalog::Limits;

use super::caller::Over;
use super::server::{Act, Server};
use super::world::World;
use crate::fixtures;

const CHAT: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}]}"#;

#[tokio::test]
async fn the_record_of_a_refused_call_tells_what_was_asked_and_what_refused_it() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let budgets: BTreeMap<_, _> =
        [fixtures::budget("acme-day", Unit::Requests)].map(|budget| (budget.name.clone(), budget)).into();
    let world = World::start(&server.url, |_, catalog| {
        catalog.budgets.clone_from(&budgets);
        let mut limited = catalog.keys.values().next().unwrap().clone();
        limited.name = "limited".parse().unwrap();
        limited.hash = fixtures::hash("sk-limited");
        limited.limits = Limits { requests_per_s: Some(0), ..Limits::default() };
        catalog.keys.insert(limited.name.clone(), limited);
    })
    .await;
    world.edge.purse.install(&budgets);
    let caller = world.caller();
    for (asking, body, code) in [
        (world.caller(), CHAT.to_owned(), "budget_unavailable"),
        (world.caller().with_key("sk-limited"), CHAT.to_owned(), "rate_limited"),
        (world.caller(), CHAT.replace("tiny", "nonsense"), "model_not_found"),
        (world.caller().with_key("sk-unknown"), CHAT.to_owned(), "invalid_api_key"),
    ] {
        assert_eq!(asking.chat(body).await.error().1, code);
    }
    let told = |record: &Value| {
        ["code", "asked", "budget", "limit", "tenant"].map(|field| record[field].as_str().map(str::to_owned))
    };
    let known = |told: [&str; 5]| told.map(|field| (!field.is_empty()).then(|| field.to_owned()));
    let records = world.records(4).await;
    assert_eq!(told(&records[0]), known(["budget_unavailable", "tiny", "acme-day", "", "acme"]));
    assert_eq!(told(&records[1]), known(["rate_limited", "tiny", "", "key.requests_per_s", "acme"]));
    assert_eq!(told(&records[2]), known(["model_not_found", "nonsense", "", "", "acme"]));
    assert_eq!(told(&records[3]), known(["invalid_api_key", "", "", "", ""]));
    assert_eq!(records[0]["bytes_in"], json!(CHAT.len()));
    assert!(records[0]["identified_us"].is_u64(), "{}", records[0]);

    let page = caller.over(Over::Plain1, caller.get("/metrics")).await.text();
    for line in [
        r#"portolan_calls_total{model="tiny",operation="chat",outcome="failed"} 2"#,
        r#"portolan_calls_total{model="(none)",operation="chat",outcome="failed"} 2"#,
        r#"portolan_tenant_calls_total{tenant="acme",outcome="failed"} 3"#,
        r#"portolan_call_seconds_count{model="tiny"} 0"#,
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
}

#[tokio::test]
async fn a_part_that_nothing_bounds_is_named_with_what_would_bound_it() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let budget = fixtures::budget("acme-tokens", Unit::Tokens);
    let world = World::start(&server.url, |_, catalog| {
        catalog.budgets.insert(budget.name.clone(), budget.clone());
    })
    .await;
    for (part, mend) in [
        (r#"{"type":"image_url","image_url":{"url":"https://x/y.png"}}"#, "no `image_tokens` or `context`"),
        (r#"{"type":"input_audio","input_audio":{"data":"AAAA"}}"#, "no `audio` or `context`"),
        (r#"{"type":"file","file":{"file_id":"f"}}"#, "no `file_tokens` or `context`"),
        (r#"{"type":"video","video":1}"#, "no `context`"),
    ] {
        let body = format!(r#"{{"model":"tiny","messages":[{{"role":"user","content":[{part}]}}]}}"#);
        let refused = world.caller().chat(body).await;
        assert_eq!(refused.error(), (400, "unbounded_cost".to_owned()), "{part}");
        let said = refused.text();
        assert!(said.contains("acme-tokens") && said.contains(mend), "{said}");
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_budget_that_cannot_bound_a_call_is_named_in_its_record() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let budget = fixtures::budget("acme-money", Unit::NanoUsd);
    let world = World::start(&server.url, |_, catalog| {
        catalog.budgets.insert(budget.name.clone(), budget.clone());
        // Without a price nothing bounds what a call costs.
        catalog.models.values_mut().for_each(|model| model.price = None);
    })
    .await;
    assert_eq!(world.caller().chat(CHAT).await.error(), (400, "unbounded_cost".to_owned()));
    assert_eq!(world.records(1).await[0]["budget"], "acme-money");
}
