//! Evidence of a tiny run in which nothing is wrong, for tests to spoil.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Amount, BudgetId, Mono, Unit, WindowId};
use central::admin::api::{Ledger, LedgerRow};

use crate::evidence::{Evidence, Facts, InForce, Record};
use crate::faults::Kind;
use crate::history::{Call, CallOutcome, History, Read, Served, ServedEnd, Struck, Write, WriteOutcome};
use crate::scenario::{self, Level, Of};

pub(crate) const fn at(ms: u64) -> Mono {
    Mono::from_nanos(ms * 1_000_000)
}

/// One strict call that cost 1,000, one write and one read of it.
pub(crate) fn evidence() -> Evidence {
    let read =
        Read { node: "central-eu".into(), started: at(30), ended: at(40), epoch: 2, serials: [0].into() };
    let write = Write {
        serial: 0,
        node: "central-eu".into(),
        started: at(10),
        ended: Some(at(20)),
        outcome: WriteOutcome::Acked(2),
    };
    let machines = [("central-eu", Kind::Central), ("edge-eu", Kind::Edge), ("model-eu", Kind::Model)];
    Evidence {
        facts: Facts {
            budget: 10_000,
            call_price: 100,
            input_price: 100,
            output_price: 200,
            machines: machines.map(|(name, kind)| (name.to_owned(), kind)).into(),
            converge_within: Duration::from_secs(10),
            ..Facts::default()
        },
        history: History {
            calls: vec![call()],
            writes: vec![write],
            reads: vec![read],
            served: vec![served()],
            ..History::default()
        },
        records: vec![record()],
        ledger: Some(ledger()),
        serials: Some([0].into()),
        epochs: vec![InForce { edge: "edge-eu".into(), at: at(5), epoch: 2 }],
        converged: Some(Duration::from_secs(1)),
        fresh: vec![("a call at edge-eu".into(), None)],
        tasks: BTreeMap::from([("edge-eu".into(), (50, 52))]),
        streams: (10, 10),
        ..Evidence::default()
    }
}

pub(crate) fn call() -> Call {
    Call {
        id: 0,
        retry_of: None,
        revoked: false,
        bound: false,
        crowd: None,
        batch: false,
        caller: "caller-eu-1".into(),
        region: "eu".into(),
        strict: true,
        edge: "edge-eu".into(),
        skipped: Vec::new(),
        model: "m".into(),
        stream: true,
        started: at(100),
        sent: Some(at(101)),
        head: Some(at(150)),
        first_byte: Some(at(151)),
        ended: Some(at(200)),
        outcome: CallOutcome::Complete,
        status: Some(200),
        code: None,
        request: Some("r0".into()),
    }
}

pub(crate) fn served() -> Served {
    Served {
        server: "model-eu".into(),
        by: Some("edge-eu".into()),
        call: Some(0),
        credential: None,
        model: "m".into(),
        asked: at(110),
        first_token: Some(at(140)),
        ended: Some(at(190)),
        end: ServedEnd::Complete,
        input: 5,
        output: 2,
        told: Some((5, 2)),
    }
}

pub(crate) fn record() -> Record {
    Record {
        edge: "edge-eu".into(),
        request: "r0".into(),
        tenant: Some("strict".into()),
        outcome: "complete".into(),
        cost: 1_000,
        paid: crate::evidence::Paid::default(),
    }
}

pub(crate) fn struck(what: &'static str, machine: &str, ms: u64) -> Struck {
    Struck { id: 0, at: at(ms), healed: None, what, machines: vec![machine.to_owned()] }
}

/// A hundred requests of the strict tenant.
pub(crate) fn level() -> Level {
    Level {
        name: "one".into(),
        of: Of::Tenant,
        unit: scenario::Unit::Requests,
        window: "total".into(),
        limit: 100,
        soft: false,
        overdraft: 0,
        threshold: Vec::new(),
    }
}

pub(crate) fn ledger() -> Ledger {
    let row = LedgerRow {
        id: BudgetId(1),
        budget: "all".parse().unwrap(),
        unit: Unit::NanoUsd,
        window: WindowId(0),
        accounts: 1,
        open: true,
        limit: Amount(10_000),
        granted: 3_000,
        returned: 2_000,
        receipts: Amount(1_000),
        crash: Amount(0),
        settling: Amount(0),
        outstanding: Amount(0),
        orphaned: Amount(0),
        written_off: Amount(0),
        overrun: Amount(0),
        corrected: 0,
        left: Amount(7_500),
        balanced: true,
    };
    Ledger { balanced: true, rows: vec![row] }
}

#[test]
fn nothing_is_wrong_with_the_samples() {
    assert_eq!(super::judge(&evidence()), []);
}

/// A run of which nothing is known but that the tenants `gold`, of weight 3, and `tin` have crowds.
pub(crate) fn crowded() -> Evidence {
    let crowd = |tenant: &str, weight| {
        let text = format!("tenant = \"{tenant}\"\nweight = {weight}\nburst = 9");
        (tenant.to_owned(), toml::from_str(&text).unwrap())
    };
    let mut evidence = evidence();
    evidence.facts.crowds = [crowd("gold", 3), crowd("tin", 1)].into();
    evidence.history = History::default();
    evidence.records.clear();
    evidence
}
