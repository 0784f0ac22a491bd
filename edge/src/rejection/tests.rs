//! What callers read.

use base::{Amount, BudgetId, Mono, Unit, WallMs};
use edge_core::limits::Refused;
use http_body_util::BodyExt as _;
use wire::catalog::{Budget, Scope, Window};

use super::*;
use crate::admission::{Denied, Level};
use crate::identity::Unknown;
use crate::purse::Refusal;

#[tokio::test]
async fn an_error_is_openais_shape_with_a_code_and_advice() {
    let response = Rejection::from(Unknown::Missing).response();
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
    let denied = Denied::Limit(Level::Tenant, Refused::Rate(when));
    let response = denied.told(now, WallMs::default()).response();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()[RETRY_AFTER], "2");
}

#[tokio::test]
async fn an_exhausted_budget_says_which_how_much_and_until_when() {
    let budget = Budget {
        id: BudgetId(7),
        name: "acme-day".parse().unwrap(),
        scope: Scope::Tenant("acme".parse().unwrap()),
        unit: Unit::NanoUsd,
        window: Window::Day,
        limit: Amount(2_000_000_000),
        horizon_ms: 60_000,
    };
    let refusal = Refusal::Exceeded {
        budget: BudgetId(7),
        limit: Amount(2_000_000_000),
        spent: Amount(1_500_000_000),
        waited: true,
    };
    let noon = WallMs::from_millis(1_764_504_000_000);
    let response = Denied::Budget(refusal, Some(budget)).told(Mono::ZERO, noon).response();
    assert_eq!((response.status().as_u16(), response.headers().get(RETRY_AFTER)), (402, None));
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    for part in ["acme-day", "$2.00 a day", "$1.50 are spent", "2025-12-01 00:00:00 UTC"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
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
    assert_eq!(Rejection::from(failure(422)).response().status(), 422);
    assert_eq!(Rejection::from(failure(500)).response().status(), 400);
}

#[test]
fn times_of_advice_are_whole_seconds_and_never_none() {
    assert_eq!([0, 1, 1_000, 1_001].map(|ms| seconds(Duration::from_millis(ms))), [1, 1, 1, 2]);
}
