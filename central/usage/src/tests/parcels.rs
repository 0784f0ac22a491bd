//! Parcels for those who take receipts on.

use super::*;

const SMALL: Bounds = Bounds { receipts: 7, bytes: 1 << 20 };

/// All parcels from the beginning on.
fn parcels(store: &Store, bounds: Bounds) -> Vec<Parcel> {
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let parcel = store.view().parcel(after, None, bounds).unwrap();
        if parcel.receipts.is_empty() {
            return found;
        }
        after = parcel.upto;
        found.push(parcel);
    }
}

fn receipts(parcels: &[Parcel]) -> Vec<Receipt> {
    parcels.iter().flat_map(|parcel| parcel.receipts.iter().map(|placed| placed.receipt.clone())).collect()
}

#[test]
fn every_store_cuts_the_same_parcels_and_together_they_are_all_receipts_once() {
    let (mut store, mut other) = (Store::open(&Place::Memory).unwrap(), Store::open(&Place::Memory).unwrap());
    store.append(span(0, 90), &batches(span(0, 90))).unwrap();
    other.append(span(40, 90), &batches(span(40, 90))).unwrap();
    assert_eq!(other.view().parcel(0, None, SMALL).unwrap().receipts, [], "what lies behind a gap waits");
    let cut = parcels(&store, SMALL);
    assert_eq!(other.view().parcel(0, Some(cut[0].upto), SMALL), Err(StoreError::Lacks(0)));
    other.append(span(0, 40), &batches(span(0, 40))).unwrap();
    assert_eq!(parcels(&other, SMALL), cut);
    for parcel in &cut {
        let again = other.view().parcel(parcel.after, Some(parcel.upto), Bounds { receipts: 1, bytes: 1 });
        assert_eq!(again.as_ref(), Ok(parcel), "a parcel that was cut stays what it is");
        assert!(parcel.receipts.len() <= SMALL.receipts);
    }
    let all: Vec<Receipt> = batches(span(0, 90))
        .iter()
        .flat_map(|batch| batch.receipts.to_vec())
        .map(|(_edge, one)| one)
        .collect();
    assert_eq!(receipts(&cut), all);
    let light = parcels(&store, Bounds { receipts: 100, bytes: 3_000 });
    assert_eq!(receipts(&light), all);
    assert!(light.len() > all.len() / 3);
    assert_eq!(
        store.view().behind(cut[0].upto, 1_000).unwrap(),
        all.len() as u64 - cut[0].receipts.len() as u64
    );
    assert_eq!(store.view().behind(0, 5).unwrap(), 5);
}

#[test]
fn what_nobody_took_is_kept_longer_but_not_for_ever() {
    let mut store = Store::open(&Place::Memory).unwrap();
    store.append(span(0, 90), &batches(span(0, 90))).unwrap();
    let (taken, from) = (batch(30).taken, batch(60).taken);
    let after =
        parcels(&store, SMALL).iter().map(|parcel| parcel.upto).find(|upto| entry(*upto).0 >= 20).unwrap();
    let hours_from = WallMs::from_millis(0);
    let prune = |store: &mut Store, receipts_from, held| {
        while store.prune(&Keep { receipts_from, hours_from, held }).unwrap() {}
        store.pruned().0
    };
    let held = Some(Held { after, from: taken });
    let pruned = prune(&mut store, from, held);
    // Up to the held place what was taken may go; behind it entries 30 to 59 are held, and so is all that follows them.
    assert!((20..=30).contains(&pruned), "{pruned}");
    let rest = store.view().parcel(after, None, SMALL).unwrap();
    assert_eq!(rest.forgotten > after, pruned > entry(after).0);
    assert_eq!(entry(rest.forgotten).0, pruned);
    assert_eq!(prune(&mut store, from, Some(Held { after, from })), prune(&mut store, from, None));
    assert!(store.pruned().0 >= 58);

    // All that is forgotten was taken: nothing looks as if it was lost, though entries without receipts follow.
    let mut store = Store::open(&Place::Memory).unwrap();
    let sparse: Vec<Batch> =
        batches(span(0, 90)).into_iter().filter(|one| one.revision.0 <= 50 || one.revision.0 > 70).collect();
    store.append(span(0, 90), &sparse).unwrap();
    let taken = entry_end(50);
    prune(&mut store, batch(90).taken, Some(Held { after: taken, from: batch(60).taken }));
    assert_eq!(store.view().parcel(taken, None, SMALL).unwrap().forgotten, taken);
}

/// The last place of an entry.
fn entry_end(of: u64) -> u64 {
    ((of + 1) << 20) - 1
}
