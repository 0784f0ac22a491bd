//! Golden bytes of log entries. An entry that an older build wrote must read back: when this fails, add a new variant at
//! the end instead of editing one.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail loudly, as tests do")]

use std::collections::BTreeMap;

use base::{Epoch, Era, Incarnation, NodeId, Role, WallMs};
use central_core::{CatalogChange, Command, Entry, KeyOf, LogMs, Registration, Sealed, Shipment};
use wire::catalog::{Change, ObjectId};
use wire::control::{Hello, NodeAddr};
use wire::ledger::{FinalReport, ReceiptBatch, Report};

const EXPECTED: &str = include_str!("golden/entry.hex");

#[test]
fn the_encoding_of_entries_does_not_change() {
    let entry = Entry {
        at: WallMs::from_millis(1_700_000_000_000),
        clock: LogMs(12_345),
        command: Command::Batch(commands()),
    };
    let bytes = wire::codec::encode(&entry).unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, EXPECTED.trim());
    assert_eq!(wire::codec::decode::<Entry>(&bytes).unwrap(), entry);
}

fn commands() -> Vec<Command> {
    let edge: base::Name = "e1".parse().unwrap();
    let mesh = "127.0.0.1:4000".parse().unwrap();
    let hello = Hello {
        level: 1,
        build: "b".into(),
        boot: 2,
        resume: None,
        last: Some(Incarnation(3)),
        mesh,
        have: None,
    };
    let region = "eu".parse().unwrap();
    let node = NodeAddr { name: "c1".parse().unwrap(), role: Role::Central, region, mesh };
    let incarnation = Incarnation(3);
    let sealed = Sealed { key: 1, nonce: [9; 12], ciphertext: vec![1, 2] };
    vec![
        Command::Register(Registration { edge: edge.clone(), region: "eu".parse().unwrap(), hello }),
        Command::Reports(vec![(edge.clone(), Report { era: Era(0), incarnation, rows: vec![] })]),
        Command::Receipts {
            edge: edge.clone(),
            batch: ReceiptBatch { incarnation, first: 7, receipts: vec![] },
        },
        Command::Final { edge: edge.clone(), report: FinalReport { incarnation, rows: vec![], receipts: 7 } },
        Command::Bye { edge, boot: 2 },
        Command::ChangeCatalog(CatalogChange {
            base: Epoch(4),
            changes: vec![Change::Remove(ObjectId::Tenant("acme".parse().unwrap()))],
            credentials: vec![(
                KeyOf { provider: "p".parse().unwrap(), key: "team-a".parse().unwrap() },
                sealed,
            )],
            by: "op".into(),
            note: "why".into(),
        }),
        Command::Rollback { base: Epoch(5), to: Epoch(4), by: "op".into() },
        Command::RaiseLevel { to: 2 },
        Command::SetMembers(BTreeMap::from([(NodeId(1), node)])),
        Command::Ship(Shipment { after: 7, upto: 9 }),
    ]
}
