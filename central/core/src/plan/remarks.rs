//! What an operator should know of an object that is consistent and will yet not do what was likely meant.

use std::collections::BTreeSet;

use base::{RegionName, Unit};
use wire::catalog::{Budget, Catalog, Model, Object, Operation, Scope};

/// Most names that one remark lists.
const NAMED: usize = 5;

/// Remarks on an object that is new or changed, within the configuration that would be in force.
pub(super) fn of(object: &Object, next: &Catalog, regions: &BTreeSet<RegionName>) -> Vec<String> {
    match object {
        Object::Model(model) => placement(model, regions).chain(budgets_of(model, next)).collect(),
        Object::Budget(budget) => models_of(budget, next).into_iter().collect(),
        Object::Tenant(_)
        | Object::App(_)
        | Object::Key(_)
        | Object::Provider(_)
        | Object::Group(_)
        | Object::Route(_) => Vec::new(),
    }
}

/// A model server is reached by the edges of its region alone. Without any edge yet, there is nothing to tell by.
fn placement<'a>(model: &'a Model, regions: &'a BTreeSet<RegionName>) -> impl Iterator<Item = String> + 'a {
    let lonely =
        |replica: &&wire::catalog::Replica| !regions.is_empty() && !regions.contains(&replica.region);
    model.replicas.iter().filter(lonely).map(|replica| {
        format!("replica {}: region {} has no edge, so that no call reaches it", replica.name, replica.region)
    })
}

fn budgets_of(model: &Model, next: &Catalog) -> Option<String> {
    let budgets = next.budgets.values().filter(|budget| may_pay(budget, model, next));
    let unpaid: Vec<_> =
        budgets.filter_map(|budget| Some((budget.name.as_str(), lack(model, budget.unit)?))).collect();
    let (_first, what) = unpaid.first()?;
    let same = unpaid.iter().filter(|(_name, other)| other == what).map(|(name, _what)| *name);
    Some(format!("{what} under {} (unbounded_cost)", named("budget", same)))
}

fn models_of(budget: &Budget, next: &Catalog) -> Option<String> {
    let unpaid: Vec<_> = next
        .models
        .values()
        .filter(|model| may_pay(budget, model, next))
        .filter_map(|model| Some((model.name.as_str(), lack(model, budget.unit)?)))
        .collect();
    let (_first, what) = unpaid.first()?;
    let same = unpaid.iter().filter(|(_name, other)| other == what).map(|(name, _what)| *name);
    Some(format!("{}: {what} (unbounded_cost)", named("model", same)))
}

/// Whether a budget pays for some calls that the model answers.
fn may_pay(budget: &Budget, model: &Model, next: &Catalog) -> bool {
    match &budget.scope {
        Scope::Model(_tenant, name) => {
            *name == model.name
                || next.groups.get(name).is_some_and(|group| group.models.contains(&model.name))
        }
        Scope::Provider(provider) => model.provider.as_ref() == Some(provider),
        Scope::Tenant(_) | Scope::App(..) | Scope::Key(_) | Scope::Scenario(..) | Scope::EachUser(..) => true,
    }
}

/// Which calls of the model a budget of this unit refuses, whatever is left of it.
fn lack(model: &Model, unit: Unit) -> Option<&'static str> {
    let chats = model.operations.contains(&Operation::Chat);
    let open = chats && model.output_cap.is_none() && model.context.is_none();
    let per_token = model.price.is_none_or(|price| price.input.0 > 0 || price.output.0 > 0);
    match unit {
        Unit::NanoUsd if model.price.is_none() => Some("no `price`, so that every call is refused"),
        Unit::NanoUsd if open && per_token => Some(OPEN),
        Unit::Tokens | Unit::OutputTokens if open => Some(OPEN),
        Unit::NanoUsd | Unit::Tokens | Unit::Requests | Unit::InputTokens | Unit::OutputTokens => None,
    }
}

const OPEN: &str = "neither `output_cap` nor `context`, so that calls without max_tokens are refused";

fn named<'a>(kind: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    let some = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = if names.len() > NAMED { ", …" } else { "" };
    format!("{kind}{plural} {some}{more}")
}
