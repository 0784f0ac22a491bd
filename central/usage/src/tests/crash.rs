//! Transactions that do not end: the file as it was at any moment is a store as it was before or after.

use super::*;

/// Copies a store's files as they are, as a crash leaves them.
fn crashed(path: &std::path::Path, to: &std::path::Path) {
    for end in ["", "-wal"] {
        let (mut from, mut into) = (path.as_os_str().to_owned(), to.as_os_str().to_owned());
        from.push(end);
        into.push(end);
        std::fs::copy(from, into).unwrap();
    }
}

#[test]
fn a_crash_at_any_byte_of_the_last_transaction_leaves_all_of_it_or_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("usage.db");
    let mut store = Store::open(&Place::File(path.clone())).unwrap();
    store.append(span(0, 30), &batches(span(0, 30))).unwrap();
    let before = (Revision(30), all_totals(&store));
    let wal = dir.path().join("usage.db-wal");
    let from = std::fs::metadata(&wal).unwrap().len();
    store.append(span(30, 50), &batches(span(30, 50))).unwrap();
    let after = (Revision(50), all_totals(&store));
    let upto = std::fs::metadata(&wal).unwrap().len();
    assert!(upto > from);
    for cut in (from..=upto).step_by(997).chain([upto - 1, upto]) {
        let torn = dir.path().join(format!("torn-{cut}"));
        crashed(&path, &torn);
        let tail = dir.path().join(format!("torn-{cut}-wal"));
        std::fs::OpenOptions::new().write(true).open(tail).unwrap().set_len(cut).unwrap();
        let mut store = Store::open(&Place::File(torn)).unwrap();
        let found = (store.head(), all_totals(&store));
        assert_eq!(found, if cut == upto { after.clone() } else { before.clone() }, "cut at {cut}");
        store.append(span(20, 50), &batches(span(20, 50))).unwrap();
        assert_eq!((store.head(), all_totals(&store)), after, "replayed after a cut at {cut}");
    }
}

#[test]
fn a_file_that_is_no_store_or_a_newer_builds_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("usage.db");
    std::fs::write(&path, vec![7; 8_192]).unwrap();
    let refused = Store::open(&Place::File(path)).unwrap_err();
    assert!(matches!(refused, StoreError::Damaged(_)), "{refused}");

    let path = dir.path().join("newer.db");
    let store = Store::open(&Place::File(path.clone())).unwrap();
    store.view().0.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    let refused = Store::open(&Place::File(path)).unwrap_err();
    assert_eq!(refused, StoreError::Newer { found: 99, known: 4 });
}

#[test]
fn without_room_nothing_is_written_and_later_all_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("usage.db");
    let mut store = Store::open(&Place::File(path)).unwrap();
    let pages: i64 = store.view().0.query_row("PRAGMA page_count", (), |row| row.get(0)).unwrap();
    let room = |store: &Store, pages: i64| {
        store.view().0.pragma_update(None, "max_page_count", pages).unwrap();
    };
    room(&store, pages + 2);
    let all = span(0, 600);
    assert_eq!(store.append(all, &batches(all)), Err(StoreError::Full));
    assert_eq!((store.head(), all_totals(&store)), (Revision(0), Vec::new()));
    room(&store, 1 << 20);
    store.append(all, &batches(all)).unwrap();
    assert_eq!(sum(&all_totals(&store)).calls, 600);
}
