//! Random steps on two stores that help each other, against sets of receipts.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::dimensions::Dimensions;

const ENTRIES: u64 = 60;

#[derive(Clone, Debug)]
enum Step {
    /// The log feeds a store the entries behind its place in the log.
    Feed { store: usize, count: u64 },
    /// The log's place moves on, as behind a snapshot: the store never sees what lies between.
    Skip { store: usize, count: u64 },
    /// The node restarts: the log feeds again from an earlier place.
    Rewind { store: usize, count: u64 },
    /// The process dies and the file is opened again.
    Reopen { store: usize },
    /// The file is lost.
    Lose { store: usize },
    /// A store asks the other for its first gap, page by page, at most so many.
    Fetch { store: usize, pages: usize },
    /// Receipts taken before so many entries are forgotten.
    Prune { store: usize, before: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let store = || 0usize..2;
    prop_oneof![
        6 => (store(), 0u64..9).prop_map(|(store, count)| Step::Feed { store, count }),
        1 => (store(), 1u64..6).prop_map(|(store, count)| Step::Skip { store, count }),
        2 => (store(), 1u64..12).prop_map(|(store, count)| Step::Rewind { store, count }),
        1 => store().prop_map(|store| Step::Reopen { store }),
        1 => store().prop_map(|store| Step::Lose { store }),
        3 => (store(), 1usize..4).prop_map(|(store, pages)| Step::Fetch { store, pages }),
        2 => (store(), 0u64..ENTRIES).prop_map(|(store, before)| Step::Prune { store, before }),
    ]
}

/// A store, where the log stands with it, and what it must hold.
struct Node {
    path: std::path::PathBuf,
    store: Store,
    log: u64,
    /// Entries whose receipts count here, and whether they are still there one by one.
    counted: BTreeMap<u64, bool>,
    head: u64,
}

impl Node {
    fn new(path: std::path::PathBuf) -> Self {
        let store = Store::open(&Place::File(path.clone())).unwrap();
        Self { path, store, log: 0, counted: BTreeMap::new(), head: 0 }
    }

    fn feed(&mut self, count: u64) {
        let upto = (self.log + count).min(ENTRIES);
        let span = span(self.log, upto);
        self.store.append(span, &batches(span)).unwrap();
        for entry in self.log + 1..=upto {
            self.counted.entry(entry).or_insert(true);
        }
        self.log = upto;
        self.head = self.head.max(upto);
    }

    /// Another process opens the file; the connection that dies with the first is dropped.
    fn reopen(&mut self) {
        self.store = Store::open(&Place::Memory).unwrap();
        self.store = Store::open(&Place::File(self.path.clone())).unwrap();
    }

    fn lose(&mut self) {
        self.store = Store::open(&Place::Memory).unwrap();
        for end in ["", "-wal", "-shm"] {
            let mut path = self.path.clone().into_os_string();
            path.push(end);
            drop(std::fs::remove_file(path));
        }
        self.store = Store::open(&Place::File(self.path.clone())).unwrap();
        self.counted.clear();
        self.head = 0;
    }

    fn prune(&mut self, before: u64) {
        let (receipts_from, earlier) = (batch(before).taken, self.store.pruned().0);
        let keep = Keep { receipts_from, hours_from: WallMs::from_millis(0), held: None };
        while self.store.prune(&keep).unwrap() {}
        let pruned = self.store.pruned().0;
        let may_go = |entry: u64| entry < before || batch(entry).receipts.is_empty();
        assert!((earlier + 1..=pruned).all(may_go), "{earlier} {pruned} {before}");
        for (_entry, whole) in self.counted.range_mut(..=pruned) {
            *whole = false;
        }
    }

    fn check(&self) {
        let missing: Vec<u64> =
            self.store.missing().iter().flat_map(|gap| gap.after.0 + 1..=gap.upto.0).collect();
        let expected: Vec<u64> = (1..=self.head).filter(|entry| !self.counted.contains_key(entry)).collect();
        assert_eq!(missing, expected);
        assert_eq!(self.store.head().0, self.head);
        assert_eq!(all_totals(&self.store), expected_totals(self.counted.keys().copied()));
        let listing = Listing { filter: Filter::default(), after: None, limit: 10_000 };
        let mut there: Vec<_> = self.store.view().list(&listing).unwrap().receipts;
        there.sort_by_key(|(_edge, receipt)| receipt.request);
        let whole = self.counted.iter().filter(|(_entry, whole)| **whole);
        let mut expected: Vec<_> = whole.flat_map(|(entry, _)| batch(*entry).receipts.to_vec()).collect();
        expected.sort_by_key(|(_edge, receipt)| receipt.request);
        assert_eq!(there, expected);
    }
}

fn fetch(node: &mut Node, other: &Node, pages: usize) {
    let mut after = None;
    for _page in 0..pages {
        let Some(gap) = node.store.missing().first().copied() else { return };
        let page = match other.store.view().export(gap, after) {
            Ok(page) => page,
            Err(StoreError::Lacks(_)) => return,
            Err(other) => panic!("{other}"),
        };
        after = node.store.import(&page).unwrap();
        match &page {
            Page::Receipts { span, .. } => {
                for entry in span.after.0 + 1..=span.upto.0 {
                    node.counted.entry(entry).or_insert(true);
                }
            }
            Page::Hours { pruned, next: None, .. } => {
                for entry in 1..=pruned.0 {
                    node.counted.insert(entry, false);
                }
                node.head = node.head.max(pruned.0);
            }
            Page::Hours { .. } => {}
        }
    }
}

fn expected_totals(entries: impl Iterator<Item = u64>) -> Vec<Group> {
    let mut groups: BTreeMap<Vec<String>, Total> = BTreeMap::new();
    for entry in entries {
        for (_edge, receipt) in batch(entry).receipts.iter() {
            let dims = Dimensions::of(receipt);
            let hour = receipt.at.as_millis() / HOUR_MS;
            let value = |by: &Dimension| match by {
                Dimension::Hour => format!("{hour:010}"),
                Dimension::Day => format!("{:010}", hour / 24),
                other => dims.text(*other).to_owned(),
            };
            let values = Dimension::ALL.iter().map(value).collect();
            groups.entry(values).or_default().add(&Total::of(receipt));
        }
    }
    groups.into_iter().map(|(values, total)| Group { values, total }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_store_holds_each_receipt_once_whatever_happens(
        steps in proptest::collection::vec(step(), 1..40)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut nodes = [Node::new(dir.path().join("a")), Node::new(dir.path().join("b"))];
        for step in steps {
            match step {
                Step::Feed { store, count } => nodes[store].feed(count),
                Step::Skip { store, count } => {
                    nodes[store].log = (nodes[store].log + count).min(ENTRIES);
                    nodes[store].feed(0);
                    nodes[store].head = nodes[store].head.max(nodes[store].log);
                }
                Step::Rewind { store, count } => nodes[store].log = nodes[store].log.saturating_sub(count),
                Step::Reopen { store } => nodes[store].reopen(),
                Step::Lose { store } => nodes[store].lose(),
                Step::Fetch { store, pages } => {
                    let [one, two] = &mut nodes;
                    let (node, other) = if store == 0 { (one, two) } else { (two, one) };
                    fetch(node, other, pages);
                }
                Step::Prune { store, before } => nodes[store].prune(before),
            }
            nodes.iter().for_each(Node::check);
        }
    }
}
