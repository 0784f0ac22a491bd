//! The store against a simple reference, through replays, gaps, foreign pages, crashes and forgetting.

#![expect(clippy::disallowed_methods, reason = "these tests tear a database's files")]

mod crash;
mod model;
mod parcels;
mod questions;

use base::{Amount, BudgetId, ModelName, NanoUsd, RequestId, Tokens, UserHash, WindowId};
use wire::catalog::Operation;
use wire::ledger::{Charge, Outcome, Receipt, ReceiptKind, Usage};

use super::*;

/// 2023-11-14 22:00 UTC.
const START: u64 = 1_699_999_200_000;

fn word<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

/// A receipt that differs from others by `seed` in who, what, when and how much.
fn receipt(seed: u64) -> Receipt {
    let model: ModelName = word(["alpha", "beta", "gamma"][(seed / 3 % 3) as usize]);
    Receipt {
        request: RequestId(u128::from(seed) << 64 | 7),
        kind: ReceiptKind::Call,
        at: WallMs::from_millis(START + seed * 977_777 % (50 * HOUR_MS)),
        tenant: word(["acme", "globex"][(seed % 2) as usize]),
        app: word("app"),
        key: word(&format!("key-{}", seed % 3)),
        scenario: seed.is_multiple_of(5).then(|| word("support")),
        user: (!seed.is_multiple_of(7)).then_some(UserHash(1 << 63 | (seed % 4))),
        model: (!seed.is_multiple_of(11)).then_some(model),
        operation: Some(Operation::Chat),
        region: word("eu"),
        served_by: (!seed.is_multiple_of(4)).then(|| "us".to_owned()),
        provider: seed.is_multiple_of(4).then(|| word("vendor")),
        provider_key: seed.is_multiple_of(8).then(|| word("team-a")),
        attempts: (seed % 4) as u16,
        usage: Usage {
            input: Tokens(seed % 1_000),
            cached_input: Tokens(seed % 7),
            cache_write: Tokens(seed % 5),
            audio_input: Tokens(seed % 3),
            output: Tokens(seed % 333),
            reasoning: Tokens(seed % 11),
            audio_output: Tokens(seed % 13),
            images: (seed % 2) as u32,
            busy_ms: (seed % 9_000) as u32,
        },
        estimated: seed.is_multiple_of(5),
        price_from: (!seed.is_multiple_of(6)).then(|| WallMs::from_millis(seed)),
        cost: NanoUsd(seed * 7_919),
        outcome: if seed.is_multiple_of(9) { Outcome::Failed } else { Outcome::Complete },
        code: seed.is_multiple_of(9).then_some(base::Code::ALL[0]),
        charges: (0..seed % 3)
            .map(|n| Charge {
                budget: BudgetId(n.into()),
                window: WindowId(seed),
                amount: Amount(seed),
                overrun: Amount(n),
            })
            .collect(),
    }
}

/// The receipts that entry `revision` made count; every third entry has none.
fn batch(revision: u64) -> Batch {
    let count = revision % 3;
    let receipts =
        (0..count).map(|n| (word(&format!("edge-{}", n % 2)), receipt(revision * 31 + n))).collect();
    let taken = WallMs::from_millis(START + revision * HOUR_MS / 2);
    Batch { revision: Revision(revision), taken, receipts: Arc::new(receipts) }
}

fn batches(span: Span) -> Vec<Batch> {
    (span.after.0 + 1..=span.upto.0).map(batch).filter(|batch| !batch.receipts.is_empty()).collect()
}

fn span(after: u64, upto: u64) -> Span {
    Span::new(Revision(after), Revision(upto))
}

/// Every hour and dimension.
fn everything() -> Question {
    let by = Dimension::ALL.to_vec();
    Question { by, filter: Filter::default(), after: None, limit: usize::MAX }
}

fn all_totals(store: &Store) -> Vec<Group> {
    store.view().totals(&everything()).unwrap().groups
}

fn sum(totals: &[Group]) -> Total {
    let mut sum = Total::default();
    totals.iter().for_each(|group| sum.add(&group.total));
    sum
}
