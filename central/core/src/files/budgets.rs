//! Budgets. A limit is read in the budget's own unit: dollars with decimals, whole tokens, whole requests.

use base::{Amount, BudgetId, ModelName, Name, TenantName, Tokens, Unit};
use settings::{Fields, Value, decimal, flag, number, text, whole, word};
use wire::calendar::Zone;
use wire::catalog::{Action, Budget, Feature, Mode, Object, Scope, Threshold, Window};

use super::{Extra, accounts, zones};

/// Horizon when a budget names none: a minute without central, at little stranding (`docs/decisions`).
const HORIZON_MS: u32 = 60_000;
/// Longest span that moves with time: a year and a day.
const LONGEST_ROLL_S: u32 = 366 * 86_400;

pub(super) fn budget(fields: &mut Fields<'_, '_>, _extra: &mut Extra<'_>) -> Option<Object> {
    let name = fields.required("name", unreserved);
    let scope = scope(fields);
    let unit = fields.required("unit", unit);
    let window = fields.required("window", window);
    let zone = fields.or("time_zone", zone, Zone::default());
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
    let mode = mode(fields, unit);
    let thresholds = fields.mappings("thresholds", threshold);
    // The number is given when the change is applied.
    let id = BudgetId(0);
    let (name, scope, window, zone, horizon_ms) = (name?, scope?, window?, zone?, horizon_ms?);
    let (mode, thresholds) = (mode?, thresholds?);
    if zone != Zone::default() && !matches!(window, Window::Day | Window::Month) {
        fields.at_fault("time_zone", "only days and months begin at some place's midnight".to_owned());
        return None;
    }
    Some(Object::Budget(Budget { id, name, scope, unit, window, zone, limit, mode, thresholds, horizon_ms }))
}

fn scope(fields: &mut Fields<'_, '_>) -> Option<Scope> {
    let tenant = fields.optional("tenant", word::<TenantName>);
    let app = fields.optional("app", word::<Name>);
    let key = fields.optional("key", word::<Name>);
    let scenario = fields.optional("scenario", word::<Name>);
    let model = fields.optional("model", word::<ModelName>);
    let provider = fields.optional("provider", word::<Name>);
    let each = fields.or("each", is_user, false)?;
    if each {
        return match (tenant?, app?, key?, scenario?, model?, provider?) {
            (Some(tenant), app, None, None, None, None) => Some(Scope::EachUser(tenant, app)),
            _other => {
                fields.missing(
                    "tenant",
                    "each user of whom? say `tenant`, or `tenant` and `app`, and no other scope",
                );
                None
            }
        };
    }
    match (tenant?, app?, key?, scenario?, model?, provider?) {
        (Some(tenant), None, None, None, None, None) => Some(Scope::Tenant(tenant)),
        (Some(tenant), Some(app), None, None, None, None) => Some(Scope::App(tenant, app)),
        (None, None, Some(key), None, None, None) => Some(Scope::Key(key)),
        (Some(tenant), None, None, Some(scenario), None, None) => Some(Scope::Scenario(tenant, scenario)),
        (tenant, None, None, None, Some(model), None) => Some(Scope::Model(tenant, model)),
        (None, None, None, None, None, Some(provider)) => Some(Scope::Provider(provider)),
        _other => {
            let what = "say which calls it pays for: `tenant`; or `tenant` and `app`; or `tenant` and `scenario`; or `key` \
                        alone; or `model`, with or without `tenant`; or `provider` alone";
            fields.missing("tenant", what);
            None
        }
    }
}

fn unreserved(value: &Value) -> Result<Name, String> {
    let name = word(value)?;
    if accounts::is_reserved(&name) {
        return Err(format!(
            "{name:?} is kept for a limit of a provider; say it as `limits` there, or take another name"
        ));
    }
    Ok(name)
}

fn is_user(value: &Value) -> Result<bool, String> {
    match text(value)?.as_str() {
        "user" => Ok(true),
        other => Err(format!("{other:?} has no accounts of its own; known is user")),
    }
}

/// `strict`, or `soft` with what one edge may add while central is silent.
fn mode(fields: &mut Fields<'_, '_>, unit: Unit) -> Option<Mode> {
    let soft = fields.or("mode", is_soft, false)?;
    let given = fields.optional("overdraft", number)?;
    let overdraft = match given.as_deref().map(|digits| amount(unit, digits)) {
        None => Amount::ZERO,
        Some(Ok(overdraft)) => overdraft,
        Some(Err(what)) => {
            fields.at_fault("overdraft", what);
            return None;
        }
    };
    if given.is_some() && !soft {
        fields.at_fault("overdraft", "a strict budget is never overdrawn; say `mode: soft`, or leave it out");
        return None;
    }
    Some(if soft { Mode::Soft { overdraft } } else { Mode::Strict })
}

fn is_soft(value: &Value) -> Result<bool, String> {
    match text(value)?.as_str() {
        "strict" => Ok(false),
        "soft" => Ok(true),
        other => Err(format!("{other:?} is not a mode; known are strict and soft")),
    }
}

fn threshold(fields: &mut Fields<'_, '_>) -> Option<Threshold> {
    let at_per_mille = fields.required("at", share);
    let action = fields.required("do", act);
    let output_cap = fields.optional("output_cap", whole);
    let cheapest = fields.or("cheapest", flag, false);
    let off = fields.list("features_off", feature);
    let except_keys = fields.list("except_keys", word);
    let except_tenants = fields.list("except_tenants", word);
    let (output_cap, cheapest, off) = (output_cap?, cheapest?, off?.unwrap_or_default());
    let is_cheaper = output_cap.is_some() || cheapest || !off.is_empty();
    let action = match action? {
        Act::Warn => Action::Warn,
        Act::Refuse => Action::Refuse,
        Act::Downgrade if off.is_empty() => {
            Action::Downgrade { output_cap: output_cap.map(Tokens), cheapest }
        }
        Act::Downgrade => Action::Restrict { output_cap: output_cap.map(Tokens), cheapest, off },
    };
    match action {
        Action::Downgrade { .. } if !is_cheaper => {
            fields.missing(
                "cheapest",
                "say how calls get cheaper: `cheapest: true`, `output_cap`, `features_off`, or several of them",
            );
            return None;
        }
        Action::Warn | Action::Refuse if is_cheaper => {
            fields.at_fault("do", "`output_cap`, `cheapest` and `features_off` belong to `downgrade`");
            return None;
        }
        Action::Downgrade { .. } | Action::Restrict { .. } | Action::Warn | Action::Refuse => {}
    }
    Some(Threshold {
        at_per_mille: at_per_mille?,
        action,
        except_keys: except_keys?.unwrap_or_default(),
        except_tenants: except_tenants?.unwrap_or_default(),
    })
}

fn feature(value: &Value) -> Result<Feature, String> {
    let given = text(value)?;
    Feature::ALL.into_iter().find(|feature| feature.as_str() == given).ok_or_else(|| {
        format!("{given:?} is no feature that can be off; known are tools, n, reasoning, images and audio")
    })
}

/// A share of the limit, in thousandths.
fn share(value: &Value) -> Result<u16, String> {
    let wrong = || "must be a share of the limit above 0 and at most 10, such as 0.8".to_owned();
    let nano = decimal::dollars(&number(value)?).map_err(|_no_number| wrong())?;
    match u16::try_from(nano.0 / 1_000_000) {
        Ok(share) if (1..=10_000).contains(&share) => Ok(share),
        Ok(_) | Err(_) => Err(wrong()),
    }
}

enum Act {
    Warn,
    Downgrade,
    Refuse,
}

fn act(value: &Value) -> Result<Act, String> {
    match text(value)?.as_str() {
        "warn" => Ok(Act::Warn),
        "downgrade" => Ok(Act::Downgrade),
        "refuse" => Ok(Act::Refuse),
        other => {
            Err(format!("{other:?} is nothing that a threshold does; known are warn, downgrade and refuse"))
        }
    }
}

fn amount(unit: Unit, digits: &str) -> Result<Amount, String> {
    match unit {
        Unit::NanoUsd => decimal::dollars(digits).map(|limit| Amount(limit.0)),
        Unit::Tokens | Unit::InputTokens | Unit::OutputTokens | Unit::Requests => digits
            .parse()
            .map(Amount)
            .map_err(|_not_whole| format!("must be a whole number of the budget's unit, not {digits}")),
    }
}

fn unit(value: &Value) -> Result<Unit, String> {
    match text(value)?.as_str() {
        "usd" => Ok(Unit::NanoUsd),
        "tokens" => Ok(Unit::Tokens),
        "input_tokens" => Ok(Unit::InputTokens),
        "output_tokens" => Ok(Unit::OutputTokens),
        "requests" => Ok(Unit::Requests),
        other => Err(format!(
            "{other:?} is not a unit; known are usd, tokens, input_tokens, output_tokens and requests"
        )),
    }
}

fn window(value: &Value) -> Result<Window, String> {
    match text(value)?.as_str() {
        "minute" => Ok(Window::Minute),
        "hour" => Ok(Window::Hour),
        "day" => Ok(Window::Day),
        "month" => Ok(Window::Month),
        "total" => Ok(Window::Total),
        other => rolling(other).ok_or_else(|| {
            format!(
                "{other:?} is not a window; known are minute, hour, day, month, total, and spans that move with time: \
                 `rolling 90s`, `rolling 5m`, `rolling 24h`, `rolling 30d`"
            )
        }),
    }
}

/// `rolling 5m`: a span of at most a year.
fn rolling(text: &str) -> Option<Window> {
    let span = text.strip_prefix("rolling")?.trim_start();
    let (digits, unit) = span.split_at_checked(span.len().checked_sub(1)?)?;
    let each: u32 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _other => return None,
    };
    let seconds = digits.parse::<u32>().ok()?.checked_mul(each)?;
    (1..=LONGEST_ROLL_S).contains(&seconds).then_some(Window::Rolling { seconds })
}

/// A time zone by its name in the time zone database, with its offsets.
fn zone(value: &Value) -> Result<Zone, String> {
    let name = text(value)?;
    zones::zone(&name).ok_or_else(|| {
        format!("{name:?} is no time zone; say a name of the time zone database, such as Europe/Berlin")
    })
}
