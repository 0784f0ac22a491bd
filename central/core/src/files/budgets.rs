//! Budgets. A limit is read in the budget's own unit: dollars with decimals, whole tokens, whole requests.

use base::{Amount, BudgetId, Name, TenantName, Unit};
use settings::{Fields, Value, decimal, number, text, whole, word};
use wire::catalog::{Budget, Object, Scope, Window};

use super::Extra;

/// Horizon when a budget names none: a minute without central, at little stranding (`docs/decisions`).
const HORIZON_MS: u32 = 60_000;

pub(super) fn budget(fields: &mut Fields<'_, '_>, _extra: &mut Extra<'_>) -> Option<Object> {
    let name = fields.required("name", word);
    let scope = scope(fields);
    let unit = fields.required("unit", unit);
    let window = fields.required("window", window);
    let limit = fields.required("limit", number);
    let horizon_ms = fields.or("horizon_ms", whole, HORIZON_MS);
    let unit = unit?;
    let limit = match amount(unit, &limit?) {
        Ok(limit) => limit,
        Err(what) => {
            fields.at_fault("limit", what);
            return None;
        }
    };
    // The number is given when the change is applied.
    let id = BudgetId(0);
    let (name, scope, window, horizon_ms) = (name?, scope?, window?, horizon_ms?);
    Some(Object::Budget(Budget { id, name, scope, unit, window, limit, horizon_ms }))
}

fn scope(fields: &mut Fields<'_, '_>) -> Option<Scope> {
    let tenant = fields.optional("tenant", word::<TenantName>);
    let app = fields.optional("app", word::<Name>);
    let key = fields.optional("key", word::<Name>);
    match (tenant?, app?, key?) {
        (Some(tenant), None, None) => Some(Scope::Tenant(tenant)),
        (Some(tenant), Some(app), None) => Some(Scope::App(tenant, app)),
        (None, None, Some(key)) => Some(Scope::Key(key)),
        (_tenant, _app, _key) => {
            let what = "say whose calls it pays for: `tenant`, or `tenant` and `app`, or `key` alone";
            fields.missing("tenant", what);
            None
        }
    }
}

fn amount(unit: Unit, digits: &str) -> Result<Amount, String> {
    match unit {
        Unit::NanoUsd => decimal::dollars(digits).map(|limit| Amount(limit.0)),
        Unit::Tokens | Unit::Requests => digits
            .parse()
            .map(Amount)
            .map_err(|_not_whole| format!("must be a whole number of the budget's unit, not {digits}")),
    }
}

fn unit(value: &Value) -> Result<Unit, String> {
    match text(value)?.as_str() {
        "usd" => Ok(Unit::NanoUsd),
        "tokens" => Ok(Unit::Tokens),
        "requests" => Ok(Unit::Requests),
        other => Err(format!("{other:?} is not a unit; known are usd, tokens and requests")),
    }
}

fn window(value: &Value) -> Result<Window, String> {
    match text(value)?.as_str() {
        "hour" => Ok(Window::Hour),
        "day" => Ok(Window::Day),
        "month" => Ok(Window::Month),
        "total" => Ok(Window::Total),
        other => Err(format!("{other:?} is not a window; known are hour, day, month and total")),
    }
}
