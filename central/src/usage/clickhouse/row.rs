//! A receipt as a row of the table: a line of JSON whose names are the table's columns.

use base::{Era, WallMs};
use serde::Serialize;
use time::OffsetDateTime;
use usage_store::{Dimension, Dimensions, Placed};
use wire::ledger::Charge;

#[derive(Serialize)]
struct Row<'a> {
    day: String,
    at: u64,
    at_ms: u64,
    taken_ms: u64,
    era: u32,
    place: u64,
    batch: &'a str,
    request: String,
    edge: &'a str,
    kind: &'a str,
    tenant: &'a str,
    app: &'a str,
    key: &'a str,
    scenario: &'a str,
    user: String,
    model: &'a str,
    provider: &'a str,
    provider_key: &'a str,
    region: &'a str,
    served_by: &'a str,
    operation: &'a str,
    outcome: &'a str,
    code: &'a str,
    attempts: u16,
    estimated: u8,
    input: u64,
    cached_input: u64,
    cache_write: u64,
    audio_input: u64,
    output: u64,
    reasoning: u64,
    audio_output: u64,
    images: u32,
    busy_ms: u32,
    price_from_ms: Option<u64>,
    cost_nano: u64,
    charges: String,
}

/// What a budget paid, within `charges`.
#[derive(Serialize)]
struct Paid {
    budget: String,
    user: String,
    window: u64,
    amount: u64,
    overrun: u64,
}

/// Writes a line.
pub(super) fn write(
    out: &mut Vec<u8>,
    (era, batch): (Era, &str),
    placed: &Placed,
) -> Result<(), serde_json::Error> {
    let (receipt, usage) = (&placed.receipt, &placed.receipt.usage);
    let dimensions = Dimensions::of(receipt);
    let of = |dimension| dimensions.text(dimension);
    let charges: Vec<Paid> = receipt.charges.iter().map(paid).collect();
    let row = Row {
        day: day(receipt.at),
        at: receipt.at.as_millis() / 1_000,
        at_ms: receipt.at.as_millis(),
        taken_ms: placed.taken.as_millis(),
        era: era.0,
        place: placed.place,
        batch,
        request: receipt.request.to_string(),
        edge: placed.edge.as_str(),
        kind: of(Dimension::Kind),
        tenant: of(Dimension::Tenant),
        app: of(Dimension::App),
        key: of(Dimension::Key),
        scenario: of(Dimension::Scenario),
        user: receipt.user.map(|user| user.to_string()).unwrap_or_default(),
        model: of(Dimension::Model),
        provider: of(Dimension::Provider),
        provider_key: of(Dimension::ProviderKey),
        region: of(Dimension::Region),
        served_by: of(Dimension::ServedBy),
        operation: of(Dimension::Operation),
        outcome: of(Dimension::Outcome),
        code: of(Dimension::Code),
        attempts: receipt.attempts,
        estimated: receipt.estimated.into(),
        input: usage.input.0,
        cached_input: usage.cached_input.0,
        cache_write: usage.cache_write.0,
        audio_input: usage.audio_input.0,
        output: usage.output.0,
        reasoning: usage.reasoning.0,
        audio_output: usage.audio_output.0,
        images: usage.images,
        busy_ms: usage.busy_ms,
        price_from_ms: receipt.price_from.map(WallMs::as_millis),
        cost_nano: receipt.cost.0,
        charges: serde_json::to_string(&charges)?,
    };
    serde_json::to_writer(&mut *out, &row)?;
    out.push(b'\n');
    Ok(())
}

fn paid(charge: &Charge) -> Paid {
    let user = charge.budget.user();
    Paid {
        budget: charge.budget.budget().to_string(),
        user: if user == 0 { String::new() } else { format!("{user:016x}") },
        window: charge.window.0,
        amount: charge.amount.0,
        overrun: charge.overrun.0,
    }
}

/// The day, UTC, of an instant.
pub(super) fn day(at: WallMs) -> String {
    let seconds = i64::try_from(at.as_millis() / 1_000).unwrap_or_default();
    let date = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH).date();
    format!("{:04}-{:02}-{:02}", date.year(), u8::from(date.month()), date.day())
}
