//! The changes that turn one configuration into another, each object at most once.

use std::collections::BTreeMap;

use wire::catalog::{Catalog, Change, Object, ObjectId};

/// Changes from `old` to `new`: removals first, then what is new or different, each after what it mentions.
#[must_use]
pub fn changes(old: &Catalog, new: &Catalog) -> Vec<Change> {
    let before: BTreeMap<ObjectId, Object> = old.objects().map(|object| (object.id(), object)).collect();
    let mut removed = before.clone();
    let mut puts = Vec::new();
    for object in new.objects() {
        let id = object.id();
        removed.remove(&id);
        if before.get(&id) != Some(&object) {
            puts.push(Change::Put(object));
        }
    }
    removed.into_keys().map(Change::Remove).chain(puts).collect()
}
