//! What callers read.

use base::{Amount, BudgetId, Mono, Unit, WallMs};
use edge_core::limits::{Per, Refused, Standing};
use http_body_util::BodyExt as _;
use wire::calendar::Zone;
use wire::catalog::{Budget, Mode, Scope, Window};

use super::*;
use crate::admission::{Denied, Level};
use crate::identity::Unknown;
use crate::passes::{Allowance, Limited};
use crate::purse::Refusal;

#[tokio::test]
async fn an_error_is_openais_shape_with_a_code_and_advice() {
    let response = Rejection::from(Unknown::Missing).response(Api::Openai);
    assert_eq!(response.status(), 401);
    assert_eq!(response.headers()[WWW_AUTHENTICATE], "Bearer");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let error: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(error["error"]["code"], "missing_api_key");
    assert!(error["error"]["message"].as_str().unwrap().contains("Authorization: Bearer"));
}

#[test]
fn a_rate_says_when_and_rounds_up() {
    let now = Mono::ZERO + Duration::from_secs(5);
    let when = now + Duration::from_millis(1_200);
    let standing = Standing { limit: 1_000, left: 7, reset: Duration::from_secs(75) };
    let allowance = Allowance { requests: None, tokens: Some(standing) };
    let tenant = (Level::Tenant, Refused::Rate(Per::TokensPerMin, when));
    let denied = Denied::Limit(Limited::of(None, Some(tenant), allowance).unwrap());
    let response = denied.told(now, WallMs::default(), Api::Openai).response(Api::Openai);
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()[RETRY_AFTER], "2");
    assert_eq!(response.headers()["x-ratelimit-limit-tokens"], "1000");
    assert_eq!(response.headers()["x-ratelimit-remaining-tokens"], "7");
    assert_eq!(response.headers()["x-ratelimit-reset-tokens"], "1m15s");
    assert!(!response.headers().contains_key("x-ratelimit-limit-requests"));
}

#[tokio::test]
async fn an_exhausted_budget_says_which_how_much_and_until_when() {
    let text = exceeded(2_000_000_000, 1).await;
    for part in ["acme-day", "$2.00 a day", "is exhausted: $2.00 are spent", "2025-12-01 00:00:00 UTC"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[tokio::test]
async fn a_call_too_large_for_what_is_left_is_told_both_and_the_mend_and_not_that_all_is_spent() {
    let text = exceeded(1_500_000_000, 700_000_000).await;
    for part in
        ["up to $0.70", "$1.50 are spent and $0.50 are left", "smaller `max_tokens` or a shorter prompt"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let held = exceeded(1_500_000_000, 400_000_000).await;
    for part in ["up to $0.40", "$1.50 are spent, and calls in progress hold"] {
        assert!(held.contains(part), "{part} is not in {held}");
    }
    assert!(!text.contains("exhausted") && !held.contains("exhausted"), "{text} {held}");
}

/// What a caller is told whose call may need up to `most` of a budget of two dollars.
async fn exceeded(spent: u64, most: u64) -> String {
    let budget = Budget {
        id: BudgetId(7),
        name: "acme-day".parse().unwrap(),
        scope: Scope::Tenant("acme".parse().unwrap()),
        unit: Unit::NanoUsd,
        window: Window::Day,
        zone: Zone::default(),
        limit: Amount(2_000_000_000),
        mode: Mode::Strict,
        thresholds: Vec::new(),
        horizon_ms: 60_000,
    };
    let (limit, spent) = (budget.limit, Amount(spent));
    let refusal = Refusal::Exceeded { budget: budget.id, limit, spent, waited: true };
    let noon = WallMs::from_millis(1_764_504_000_000);
    let denied = Denied::Budget(refusal, Some((std::sync::Arc::new(budget), Amount(most))));
    let response = denied.told(Mono::ZERO, noon, Api::Openai).response(Api::Openai);
    assert_eq!((response.status().as_u16(), response.headers().get(RETRY_AFTER)), (402, None));
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[test]
fn the_callers_own_fault_is_told_in_the_upstreams_words_and_no_other() {
    let failure = |status| Failure {
        code: Code::InvalidRequest,
        message: "m".to_owned(),
        upstream_status: Some(status),
        body: Some(b"{\"error\":1}".to_vec()),
        retry_after_ms: None,
    };
    assert_eq!(Rejection::from(failure(422)).response(Api::Openai).status(), 422);
    assert_eq!(Rejection::from(failure(500)).response(Api::Openai).status(), 400);
}

#[test]
fn times_of_advice_are_whole_seconds_and_never_none() {
    assert_eq!([0, 1, 1_000, 1_001].map(|ms| seconds(Duration::from_millis(ms))), [1, 1, 1, 2]);
}
