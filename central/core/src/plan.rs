//! What files would change: object by object, field by field, and what would break.

mod remarks;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use base::{Epoch, RegionName};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use settings::Fault;
use wire::catalog::{Catalog, Change, Object, ObjectId, Scope};

use crate::KeyOf;
use crate::catalog::{changes, check, unsealed};
use crate::files::{Credential, Parsed, accounts, export_object};

/// What files would change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The epoch it was made for.
    pub base: Epoch,
    /// Changes, removals first.
    pub steps: Vec<Step>,
    /// Providers' keys whose credential would be given or replaced.
    pub credentials: Vec<KeyOf>,
}

/// One object's change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What happens to it.
    pub action: Action,
    /// The object, such as `model gpt-4o`.
    pub object: String,
    /// Fields that differ; of a new object all.
    pub fields: Vec<FieldChange>,
    /// Objects that would be left inconsistent, and other consequences an operator should know.
    pub warnings: Vec<String>,
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is new.
    Add,
    /// It differs.
    Change,
    /// It goes.
    Remove,
}

/// One field's change, as text in the form of the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldChange {
    /// Which field.
    pub field: String,
    /// Before; `None`: absent.
    pub before: Option<String>,
    /// After; `None`: absent.
    pub after: Option<String>,
}

/// Files resolved against the configuration in force.
#[derive(Debug)]
pub struct Resolved {
    /// What would change, for people.
    pub plan: Plan,
    /// What would change, for the state.
    pub changes: Vec<Change>,
    /// Secrets to seal.
    pub credentials: Vec<Credential>,
    /// Why it cannot be applied; empty when it can.
    pub faults: Vec<Fault>,
}

/// What is known beside the configuration in force.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Regions that have an edge.
    pub regions: BTreeSet<RegionName>,
    /// Providers' keys whose credential is sealed in the state.
    pub sealed: BTreeSet<KeyOf>,
}

/// What applying `parsed` to `current` would do. With `prune`, objects that no file mentions go.
#[must_use]
pub fn resolve(current: &Catalog, parsed: Parsed, prune: bool, known: &Known) -> Resolved {
    let mut next =
        if prune { Catalog { epoch: current.epoch, ..Catalog::default() } } else { current.clone() };
    // A provider's limits are as its file says: one that it leaves out goes.
    for object in &parsed.objects {
        if let Object::Provider(provider) = object {
            accounts::budgets_of(&provider.name).for_each(|id| next.apply(Change::Remove(id)));
        }
    }
    for object in &parsed.objects {
        next.apply(Change::Put(object.clone()));
    }
    keep_budget_numbers(current, &mut next);
    let sealed = |of: &KeyOf| {
        known.sealed.contains(of) || parsed.credentials.iter().any(|credential| credential.of == *of)
    };
    let problems = check(&next).into_iter().chain(unsealed(&next, sealed));
    let faults: Vec<Fault> = problems.map(|problem| parsed.place(&problem)).collect();
    let changes = changes(current, &next);
    let before: BTreeMap<ObjectId, Object> = current.objects().map(|object| (object.id(), object)).collect();
    let step = |change: &Change| {
        let mut step = step(change, &before, &next, faults.is_empty());
        if let Change::Put(object) = change {
            step.warnings.extend(remarks::of(object, &next, &known.regions));
        }
        step
    };
    let plan = Plan {
        base: current.epoch,
        steps: changes.iter().map(step).collect(),
        credentials: parsed.credentials.iter().map(|credential| credential.of.clone()).collect(),
    };
    Resolved { plan, changes, credentials: parsed.credentials, faults }
}

/// Files do not know budgets' numbers; without this, every budget would seem changed.
fn keep_budget_numbers(current: &Catalog, next: &mut Catalog) {
    for budget in next.budgets.values_mut() {
        if let Some(known) = current.budgets.get(&budget.name) {
            budget.id = known.id;
        }
    }
}

fn step(change: &Change, before: &BTreeMap<ObjectId, Object>, next: &Catalog, consistent: bool) -> Step {
    match change {
        Change::Put(object) => {
            let old = before.get(&object.id());
            Step {
                action: if old.is_some() { Action::Change } else { Action::Add },
                object: object.id().to_string(),
                fields: fields(old, Some(object)),
                warnings: old.and_then(|old| loses(old, object)).into_iter().collect(),
            }
        }
        Change::Remove(id) => {
            let broken = if consistent { BTreeSet::new() } else { mentioned_by(next, id) };
            Step {
                action: Action::Remove,
                object: id.to_string(),
                fields: Vec::new(),
                warnings: broken.into_iter().map(|user| format!("breaks {user}")).collect(),
            }
        }
    }
}

/// What an object's new form takes from what was written under its old one. A budget that counts something else is another
/// budget.
fn loses(old: &Object, new: &Object) -> Option<String> {
    match (old, new) {
        (Object::Budget(old), Object::Budget(new)) => {
            let same = old.scope == new.scope && old.unit == new.unit && old.window == new.window;
            (!same)
                .then(|| "counts from nothing: what was spent so far belongs to the old meaning".to_owned())
        }
        (Object::Model(old), Object::Model(new)) => remarks::reprices(old, new),
        (_old, _new) => None,
    }
}

/// The objects of `catalog` that mention `id`.
fn mentioned_by(catalog: &Catalog, id: &ObjectId) -> BTreeSet<ObjectId> {
    catalog.objects().filter(|object| mentions(object, id)).map(|object| object.id()).collect()
}

fn mentions(object: &Object, id: &ObjectId) -> bool {
    match (object, id) {
        (Object::App(app), ObjectId::Tenant(tenant)) => app.tenant == *tenant,
        (Object::Key(key), ObjectId::Tenant(tenant)) => key.tenant == *tenant,
        (Object::Key(key), ObjectId::App(tenant, app)) => key.tenant == *tenant && key.app == *app,
        (Object::Key(key), ObjectId::Model(name) | ObjectId::Group(name) | ObjectId::Route(name)) => {
            key.models.iter().flatten().any(|model| model == name)
        }
        (Object::Model(model), ObjectId::Provider(provider)) => model.provider.as_ref() == Some(provider),
        (Object::Group(group), ObjectId::Model(name)) => group.models.contains(name),
        (Object::Route(route), ObjectId::Model(name) | ObjectId::Group(name)) => {
            route.targets.iter().any(|target| target.model == *name)
        }
        (Object::Budget(budget), id) => match (&budget.scope, id) {
            (Scope::Tenant(tenant) | Scope::EachUser(tenant, None), ObjectId::Tenant(gone)) => tenant == gone,
            (Scope::App(tenant, app) | Scope::EachUser(tenant, Some(app)), ObjectId::App(of, gone)) => {
                tenant == of && app == gone
            }
            (Scope::Key(key), ObjectId::Key(gone)) => key == gone,
            (Scope::Scenario(tenant, _) | Scope::Model(Some(tenant), _), ObjectId::Tenant(gone)) => {
                tenant == gone
            }
            (Scope::Model(_, model), ObjectId::Model(gone) | ObjectId::Group(gone)) => model == gone,
            (Scope::Provider(provider), ObjectId::Provider(gone)) => provider == gone,
            (_scope, _other) => false,
        },
        (_object, _other) => false,
    }
}

fn fields(old: Option<&Object>, new: Option<&Object>) -> Vec<FieldChange> {
    let mut forms = [old, new].map(|object| object.map(export_object).unwrap_or_default());
    let listed = forms.iter().any(|form| form.get("price").is_some_and(Value::is_array));
    if listed {
        forms.iter_mut().for_each(list_price);
    }
    let [old, new] = forms.map(|form| {
        let mut flat = BTreeMap::new();
        flatten(String::new(), &form, &mut flat);
        flat
    });
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    names
        .into_iter()
        .filter(|name| old.get(*name) != new.get(*name))
        .map(|name| FieldChange {
            field: name.clone(),
            before: old.get(name).cloned(),
            after: new.get(name).cloned(),
        })
        .collect()
}

/// One price as a list of one, so that it compares with its place in a longer list.
fn list_price(form: &mut Value) {
    if let Some(price) = form.get_mut("price").filter(|price| price.is_object()) {
        *price = Value::Array(vec![price.take()]);
    }
}

fn flatten(path: String, value: &Value, flat: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(below, value, flat);
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                flatten(format!("{path}[{at}]"), value, flat);
            }
        }
        Value::String(text) => drop(flat.insert(path, text.clone())),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => {
            drop(flat.insert(path, plain.to_string()));
        }
    }
}

impl Plan {
    /// Whether nothing would change.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.credentials.is_empty()
    }

    fn count(&self, action: Action) -> usize {
        self.steps.iter().filter(|step| step.action == action).count()
    }
}

impl fmt::Display for Plan {
    /// For people: one paragraph per object, then a sum.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            write!(f, "{step}")?;
        }
        for of in &self.credentials {
            writeln!(f, "~ credential of {of}")?;
        }
        if self.is_empty() {
            return writeln!(f, "Nothing to change; epoch {} stands.", self.base);
        }
        let (add, change) = (self.count(Action::Add), self.count(Action::Change));
        let remove = self.count(Action::Remove);
        writeln!(f, "{add} to add, {change} to change, {remove} to remove, on epoch {}.", self.base)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.action {
            Action::Add => '+',
            Action::Change => '~',
            Action::Remove => '-',
        };
        writeln!(f, "{sign} {}", self.object)?;
        for FieldChange { field, before, after } in &self.fields {
            match (before, after) {
                (Some(before), Some(after)) => writeln!(f, "    {field}: {before} -> {after}")?,
                (None, Some(after)) => writeln!(f, "    {field}: {after}")?,
                (Some(before), None) => writeln!(f, "    {field}: {before} -> (none)")?,
                (None, None) => {}
            }
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "    ! {warning}"))
    }
}
