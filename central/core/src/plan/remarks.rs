//! What an operator should know of an object that is consistent and will yet not do what was likely meant.

use std::collections::BTreeSet;

use base::{PriceVersion, RegionName, Unit, WallMs};
use tokens::Reference;
use wire::catalog::{Budget, Catalog, Model, Object, Operation, Scope};

/// Most names that one remark lists.
const NAMED: usize = 5;

/// Remarks on an object that is new or changed, within the configuration that would be in force.
pub(super) fn of(object: &Object, next: &Catalog, regions: &BTreeSet<RegionName>) -> Vec<String> {
    match object {
        Object::Model(model) => {
            let told = placement(model, regions).chain(budgets_of(model, next));
            told.chain(priced_late(model)).chain(uncounted(model)).collect()
        }
        Object::Budget(budget) => models_of(budget, next).into_iter().collect(),
        Object::Tenant(_)
        | Object::App(_)
        | Object::Key(_)
        | Object::Provider(_)
        | Object::Group(_)
        | Object::Route(_) => Vec::new(),
    }
}

/// Files of one name may differ from edge to edge, and so may what they hold for the same call.
fn uncounted(model: &Model) -> Option<String> {
    let name = model.tokenizer.as_deref()?;
    match name.parse() {
        Ok(Reference::BuiltIn(_) | Reference::File { digest: Some(_), .. }) => None,
        Ok(Reference::File { digest: None, .. }) => Some(format!(
            "tokenizer {name} is whatever {name}.json each edge has in its directory of tokenizers: add `@sha256:` and \
             what `sha256sum` prints, and all count alike"
        )),
        Err(bad) => {
            Some(format!("tokenizer {name} {bad}; until then strict budgets hold a token for each byte"))
        }
    }
}

/// Before its first version a price is unknown.
fn priced_late(model: &Model) -> Option<String> {
    let first = model.price.as_ref()?.versions.first()?;
    let late = first.from > WallMs::default();
    late.then(|| {
        "no price before the first `from`: until then no strict budget in usd pays for a call".to_owned()
    })
}

/// What a new form of a model does to bills that were written: a version's rates are what they are computed with.
pub(super) fn reprices(old: &Model, new: &Model) -> Option<String> {
    let (old, new) = (old.price.as_ref()?, new.price.as_ref()?);
    let listed = old.versions.len().max(new.versions.len()) > 1;
    let kept = |version: &&PriceVersion| {
        new.versions.iter().all(|next| next.from != version.from || next == *version)
            && new.versions.iter().any(|next| next.from == version.from)
    };
    let changed = old.versions.iter().find(|version| !kept(version)).filter(|_| listed);
    changed.map(|_version| {
        "a version of the price changes or goes: bills written under it stay as they are, and cannot be recomputed; \
         add a version with a later `from` instead"
            .to_owned()
    })
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
    let versions = model.price.as_ref().map(|price| price.versions.as_slice()).unwrap_or_default();
    let per_token = !versions.iter().all(PriceVersion::is_free_by_token);
    match unit {
        Unit::NanoUsd if versions.is_empty() => Some("no `price`, so that every call is refused"),
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
