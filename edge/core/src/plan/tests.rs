//! A plan's walk, from catalogs built by hand.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{ModelName, Role};
use proptest::prelude::*;
use wire::catalog::{
    Catalog, Dialect, Group, Limits, Model, Operation, Replica, Route, Strategy as Picking, Target, Timeouts,
};
use wire::control::NodeAddr;

use super::*;

#[test]
fn a_model_is_tried_here_then_at_the_nearest_region_then_through_central() {
    let offers = offers();
    let links = links();
    let mut plan = Plan::new(Arc::clone(offers.find("big").unwrap()), Operation::Chat, 0);
    let mut walked = Vec::new();
    while let Some(attempt) = plan.next(&links, |_| true) {
        walked.push(label(&attempt));
        plan.failed(&attempt, Culprit::Upstream);
    }
    assert_eq!(walked, ["big local", "big peer near", "big peer far", "big central c2"]);
}

#[test]
fn an_unreachable_node_is_skipped_for_every_model_and_its_twin_is_asked() {
    let offers = offers();
    let links = links();
    let mut plan = Plan::new(Arc::clone(offers.find("relayed").unwrap()), Operation::Chat, 0);
    let first = plan.next(&links, |_| true).unwrap();
    plan.failed(&first, Culprit::Node);
    assert_eq!(label(&first), "relayed central c2");
    assert_eq!(label(&plan.next(&links, |_| true).unwrap()), "relayed central c1");
}

#[test]
fn central_nodes_beyond_two_that_were_out_of_reach_come_after_every_other_target() {
    let offers = offers();
    let nodes = ["c1", "c2", "c3", "c4"].map(|name| node(name, Role::Central, "north"));
    let links = Links::new(&nodes, &"own".parse().unwrap(), &"here".parse().unwrap(), &[]);
    let mut plan = Plan::new(Arc::clone(offers.find("relayed-first").unwrap()), Operation::Chat, 0);
    let mut walked = Vec::new();
    while let Some(attempt) = plan.next(&links, |_| true) {
        walked.push(label(&attempt));
        plan.failed(&attempt, Culprit::Node);
    }
    assert_eq!(
        walked,
        [
            "relayed central c1",
            "relayed central c2",
            "small local",
            "relayed central c3",
            "relayed central c4"
        ]
    );
}

#[test]
fn a_group_falls_to_its_next_model_and_an_alias_means_its_route() {
    let offers = offers();
    let mut plan = Plan::new(Arc::clone(offers.find("smart-alias").unwrap()), Operation::Chat, 7);
    let nowhere = Links::default();
    let first = plan.next(&nowhere, |_| true).unwrap();
    plan.failed(&first, Culprit::Upstream);
    assert_eq!(label(&first), "big local");
    assert_eq!(label(&plan.next(&nowhere, |_| true).unwrap()), "small local");
    assert!(offers.find("absent").is_none());
}

#[test]
fn what_a_model_cannot_do_or_a_budget_cannot_bound_is_no_target() {
    let offers = offers();
    let links = links();
    let embed = Plan::new(Arc::clone(offers.find("big").unwrap()), Operation::Embeddings, 0);
    assert!(embed.next(&links, |_| true).is_none());
    let chat = Plan::new(Arc::clone(offers.find("both").unwrap()), Operation::Chat, 0);
    let bounded = chat.next(&links, |candidate| candidate.model.name.as_str() != "big").unwrap();
    assert_eq!(label(&bounded), "small local");
}

proptest! {
    #[test]
    fn weights_are_kept_and_a_weightless_target_is_only_a_fallback(seed in any::<u64>()) {
        let offers = offers();
        let offer = offers.find("weighted").unwrap();
        let rounds = 2_000u64;
        let mut firsts: BTreeMap<String, u64> = BTreeMap::new();
        for round in 0..rounds {
            let drawn = seed.wrapping_add(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let order: Vec<_> = offer.in_order(drawn).map(|candidate| candidate.model.name.to_string()).collect();
            prop_assert_eq!(order.len(), 3);
            *firsts.entry(order[0].clone()).or_default() += 1;
        }
        prop_assert_eq!(firsts.get("relayed"), None);
        let big = firsts.get("big").copied().unwrap_or_default();
        prop_assert!((1_350..1_650).contains(&big), "{big} of {rounds}");
    }
}

fn label(attempt: &Attempt) -> String {
    let node = attempt.path.node().map_or(String::new(), |link| format!(" {}", link.node));
    format!("{} {}{node}", attempt.candidate.model.name, attempt.path.as_str())
}

fn node(name: &str, role: Role, region: &str) -> NodeAddr {
    NodeAddr {
        name: name.parse().unwrap(),
        role,
        region: region.parse().unwrap(),
        mesh: ([127, 0, 0, 1], 1).into(),
    }
}

fn links() -> Links {
    let nodes = [
        node("own", Role::Edge, "here"),
        node("twin", Role::Edge, "here"),
        node("far", Role::Edge, "south"),
        node("near", Role::Edge, "north"),
        node("c1", Role::Central, "here"),
        node("c2", Role::Central, "north"),
    ];
    let standing = [("far", 80), ("near", 20), ("c2", 20)]
        .map(|(name, ms)| (name.parse().unwrap(), Duration::from_millis(ms)));
    Links::new(&nodes, &"own".parse().unwrap(), &"here".parse().unwrap(), &standing)
}

fn offers() -> Offers {
    let mut catalog = Catalog::default();
    for model in [model("big", &["here", "north", "south"], true), model("small", &["here"], false)] {
        catalog.models.insert(model.name.clone(), model);
    }
    catalog.models.insert(name("relayed"), model("relayed", &[], true));
    let both = Group { name: name("both"), models: vec![name("big"), name("small")] };
    catalog.groups.insert(both.name.clone(), both);
    let smart = route("smart", &["smart-alias"], Picking::Ordered, &[("both", 1)]);
    let relayed = route("relayed-first", &[], Picking::Ordered, &[("relayed", 1), ("small", 1)]);
    let weighted = route("weighted", &[], Picking::Weighted, &[("big", 3), ("relayed", 0), ("small", 1)]);
    for route in [smart, relayed, weighted] {
        catalog.routes.insert(route.name.clone(), route);
    }
    Offers::compile(&catalog, &"here".parse().unwrap())
}

fn name(text: &str) -> ModelName {
    text.parse().unwrap()
}

fn route(title: &str, aliases: &[&str], strategy: Picking, targets: &[(&str, u32)]) -> Route {
    Route {
        name: name(title),
        aliases: aliases.iter().map(|alias| name(alias)).collect(),
        strategy,
        targets: targets.iter().map(|&(model, weight)| Target { model: name(model), weight }).collect(),
    }
}

fn model(title: &str, regions: &[&str], provider: bool) -> Model {
    let replica = |region: &&str| Replica {
        name: format!("{title}-{region}").parse().unwrap(),
        region: region.parse().unwrap(),
        url: "http://127.0.0.1:1".to_owned(),
        concurrency: None,
        requests_per_s: None,
        requests_per_min: None,
        tokens_per_min: None,
    };
    Model {
        name: name(title),
        upstream_model: None,
        dialect: Dialect::Openai,
        operations: vec![Operation::Chat],
        price: None,
        context: None,
        output_cap: None,
        tokenizer: None,
        image_tokens: None,
        audio: None,
        file_tokens: None,
        replicas: regions.iter().map(replica).collect(),
        provider: provider.then(|| "acme".parse().unwrap()),
        timeouts: Timeouts::default(),
        limits: Limits::default(),
    }
}
