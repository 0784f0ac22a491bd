//! Limits of a provider's account. Each is a budget that all edges lease of (docs/decisions/0013-account-limits.md): the files say a
//! rate of a provider, and the configuration has a strict budget for it, under a name that no file may give to another.

use base::{Amount, BudgetId, Name, Unit};
use serde_json::{Map, Value, json};
use settings::{Fields, whole};
use wire::calendar::Zone;
use wire::catalog::{Budget, Catalog, Mode, Object, ObjectId, Provider, Scope, Window};

/// The rates of an account, by the field that says them.
const RATES: [(&str, Unit); 2] = [("requests_per_min", Unit::Requests), ("tokens_per_min", Unit::Tokens)];

/// No span of a minute spends more, wherever it begins.
const WINDOW: Window = Window::Rolling { seconds: 60 };

/// A rate comes free again by itself: little is gained from holding more of it.
const HORIZON_MS: u32 = 5_000;

/// Reads `limits` of a provider: its budgets.
pub(super) fn read(fields: &mut Fields<'_, '_>, provider: Option<&Name>) -> Option<Vec<Budget>> {
    let rates = fields.mapping("limits", |limits| {
        let rates: Vec<_> =
            RATES.into_iter().map(|(field, unit)| (limits.optional(field, whole), unit)).collect();
        rates.into_iter().map(|(rate, unit)| Some((rate?, unit))).collect::<Option<Vec<_>>>()
    });
    let rates = rates?.unwrap_or_default();
    let provider = provider?;
    let given = rates.into_iter().filter_map(|(rate, unit)| Some((rate?, unit)));
    let budgets: Option<Vec<Budget>> =
        given.map(|(rate, unit)| budget(provider, unit, Amount(rate))).collect();
    if budgets.is_none() {
        fields.at_fault(
            "limits",
            "a provider whose name has more than 46 characters has no limits of its own".to_owned(),
        );
    }
    budgets
}

/// The budgets that a provider of this name has for its limits.
pub(crate) fn budgets_of(provider: &Name) -> impl Iterator<Item = ObjectId> {
    RATES.into_iter().filter_map(|(field, _unit)| name(provider, field)).map(ObjectId::Budget)
}

/// Whether no file may give a budget this name.
pub(super) fn is_reserved(name: &Name) -> bool {
    let of_rate = |(field, _unit): (&str, Unit)| {
        name.as_str().strip_suffix(field).is_some_and(|provider| provider.ends_with('.'))
    };
    RATES.into_iter().any(of_rate)
}

/// Whether it is a limit of its provider, and no budget of its own.
pub(super) fn is_limit(object: &Object) -> bool {
    match object {
        Object::Budget(Budget { scope: Scope::Provider(provider), name: given, .. }) => {
            RATES.into_iter().any(|(field, _unit)| name(provider, field).as_ref() == Some(given))
        }
        _other => false,
    }
}

/// A provider's limits in the form of the files.
pub(super) fn form(catalog: &Catalog, provider: &Provider) -> Value {
    let rate = |(field, _unit): (&str, Unit)| {
        let budget = catalog.budgets.get(&name(&provider.name, field)?)?;
        Some((field.to_owned(), json!(budget.limit)))
    };
    let rates: Map<_, _> = RATES.into_iter().filter_map(rate).collect();
    if rates.is_empty() { Value::Null } else { Value::Object(rates) }
}

fn name(provider: &Name, field: &str) -> Option<Name> {
    format!("{provider}.{field}").parse().ok()
}

fn budget(provider: &Name, unit: Unit, limit: Amount) -> Option<Budget> {
    let (field, _unit) = RATES.into_iter().find(|(_field, of)| *of == unit)?;
    Some(Budget {
        // The number is given when the change is applied.
        id: BudgetId(0),
        name: name(provider, field)?,
        scope: Scope::Provider(provider.clone()),
        unit,
        window: WINDOW,
        zone: Zone::default(),
        limit,
        mode: Mode::Strict,
        thresholds: Vec::new(),
        horizon_ms: HORIZON_MS,
    })
}
