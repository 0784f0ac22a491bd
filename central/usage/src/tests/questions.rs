//! Questions and listings.

use super::*;

fn filled() -> Store {
    let mut store = Store::open(&Place::Memory).unwrap();
    store.append(span(0, 90), &batches(span(0, 90))).unwrap();
    store
}

#[test]
fn groups_add_up_and_pages_follow_each_other() {
    let store = filled();
    let whole = sum(&all_totals(&store));
    assert_eq!(whole.calls, 90);
    for by in Dimension::ALL {
        let question = Question { by: vec![*by], limit: 1_000, ..Question::default() };
        let totals = store.view().totals(&question).unwrap();
        assert_eq!(sum(&totals.groups), whole, "{by}");
        let (mut paged, mut after) = (Vec::new(), None);
        loop {
            let question = Question { limit: 2, after: after.clone(), ..question.clone() };
            let page = store.view().totals(&question).unwrap();
            after = page.groups.last().map(|group| group.values.clone());
            paged.extend(page.groups);
            if !page.more {
                break;
            }
        }
        assert_eq!(paged, totals.groups, "{by}");
    }
    let one = Question { limit: 1, ..Question::default() };
    assert_eq!(store.view().totals(&one).unwrap().groups, [Group { values: Vec::new(), total: whole }]);
}

#[test]
fn filters_and_times_choose_what_counts() {
    let store = filled();
    let whole = sum(&all_totals(&store));
    let of = |filter: Filter| {
        let question = Question { by: Vec::new(), filter, after: None, limit: 1 };
        sum(&store.view().totals(&question).unwrap().groups)
    };
    let tenant =
        |name: &str| Filter { equal: vec![(Dimension::Tenant, name.to_owned())], ..Filter::default() };
    let (acme, globex) = (of(tenant("acme")), of(tenant("globex")));
    assert_eq!(acme.cost + globex.cost, whole.cost);
    assert!(acme.calls > 0 && globex.calls > 0);
    let none = of(Filter { equal: vec![(Dimension::Model, String::new())], ..Filter::default() });
    assert!(none.calls > 0 && none.calls < whole.calls);
    let middle = WallMs::from_millis(START + 20 * HOUR_MS + 1);
    let late = of(Filter { since: Some(middle), ..Filter::default() });
    let early = of(Filter { until: Some(middle), ..Filter::default() });
    let hour = of(Filter { since: Some(middle), until: Some(middle), ..Filter::default() });
    assert_eq!(late.calls + early.calls, whole.calls + hour.calls, "the hour of the bound counts in both");
}

#[test]
fn receipts_are_found_by_request_and_listed_newest_first_page_by_page() {
    let store = filled();
    let wanted = batch(7).receipts[0].clone();
    assert_eq!(store.view().receipts_of(wanted.1.request, 10).unwrap(), [wanted]);
    let filter = Filter {
        since: Some(WallMs::from_millis(START + HOUR_MS)),
        until: Some(WallMs::from_millis(START + 30 * HOUR_MS)),
        equal: vec![(Dimension::Tenant, "acme".to_owned())],
        user: None,
    };
    let mut listing = Listing { filter, after: None, limit: 4 };
    let mut found = Vec::new();
    loop {
        let page = store.view().list(&listing).unwrap();
        found.extend(page.receipts);
        listing.after = page.next;
        if page.next.is_none() {
            break;
        }
    }
    let fits = |receipt: &Receipt| {
        let at = receipt.at.as_millis();
        receipt.tenant.as_str() == "acme" && (START + HOUR_MS..START + 30 * HOUR_MS).contains(&at)
    };
    let all = batches(span(0, 90));
    let expected = all.iter().flat_map(|batch| batch.receipts.iter()).filter(|(_edge, one)| fits(one));
    assert_eq!(found.len(), expected.count());
    assert!(found.windows(2).all(|pair| pair[0].1.at >= pair[1].1.at));
}

#[test]
fn a_users_calls_are_listed_and_summed_from_receipts_as_long_as_these_are_kept() {
    let mut store = filled();
    let whole = sum(&all_totals(&store));
    let of = |store: &Store, user: u64| {
        let filter = Filter { user: Some(UserHash(1 << 63 | user)), ..Filter::default() };
        let listing = Listing { filter: filter.clone(), after: None, limit: 1_000 };
        let listed = store.view().list(&listing).unwrap().receipts;
        assert!(listed.iter().all(|(_edge, one)| one.user == filter.user));
        let question = Question { by: Dimension::ALL.to_vec(), filter, after: None, limit: 1_000 };
        let totals = store.view().totals(&question).unwrap();
        assert_eq!(sum(&totals.groups).cost, listed.iter().map(|(_edge, one)| one.cost.0).sum::<u64>());
        (sum(&totals.groups).calls, totals.kept_from)
    };
    let calls: u64 = (0..4).map(|user| of(&store, user).0).sum();
    let all = batches(span(0, 90));
    let all = all.iter().flat_map(|batch| batch.receipts.iter());
    let nobodys = all.filter(|(_edge, one)| one.user.is_none()).count();
    assert_eq!((calls + nobodys as u64, of(&store, 0).1), (whole.calls, None));
    let since = WallMs::from_millis(START + 10 * HOUR_MS + 1);
    let filter = Filter { since: Some(since), user: Some(UserHash(1 << 63)), ..Filter::default() };
    let late = Question { by: vec![Dimension::Hour], filter, after: None, limit: 1_000 };
    let hours = store.view().totals(&late).unwrap().groups;
    let first: u64 = hours[0].values[0].parse().unwrap();
    assert!(first >= since.as_millis() / HOUR_MS && hours.len() > 1);

    let receipts_from = batch(40).taken;
    let keep = Keep { receipts_from, hours_from: WallMs::from_millis(0), held: None };
    while store.prune(&keep).unwrap() {}
    assert!(of(&store, 0).0 < calls && sum(&all_totals(&store)) == whole);
    assert_eq!(of(&store, 0).1, Some(receipts_from));
}

#[test]
fn sums_stop_at_the_largest_number_instead_of_becoming_inexact() {
    let mut store = Store::open(&Place::Memory).unwrap();
    let mut large = receipt(2);
    large.cost = NanoUsd(u64::MAX);
    let entry = |revision| Batch {
        revision: Revision(revision),
        taken: large.at,
        receipts: Arc::new(vec![(word("edge"), large.clone())]),
    };
    store.append(span(0, 1), &[entry(1)]).unwrap();
    store.append(span(1, 2), &[entry(2)]).unwrap();
    assert_eq!(sum(&all_totals(&store)).cost, i64::MAX.unsigned_abs());
}

#[test]
fn old_hours_are_forgotten_once_nothing_came_into_them_for_as_long() {
    let mut store = filled();
    let far = WallMs::from_millis(START + 1_000 * HOUR_MS);
    let early = WallMs::from_millis(START + 10 * HOUR_MS);
    while store.prune(&Keep { receipts_from: far, hours_from: early, held: None }).unwrap() {}
    let left =
        store.view().totals(&Question { by: vec![Dimension::Hour], limit: 1_000, ..Question::default() });
    let left: Vec<u64> = left.unwrap().groups.iter().map(|group| group.values[0].parse().unwrap()).collect();
    let stays = |batch: &Batch| {
        let late = batch.taken >= early;
        batch.receipts.iter().any(|(_edge, one)| late || one.at >= early)
    };
    let all = batches(span(0, 90));
    let expected: std::collections::BTreeSet<u64> = all
        .iter()
        .filter(|batch| stays(batch))
        .flat_map(|batch| batch.receipts.iter().map(|(_edge, one)| one.at.as_millis() / HOUR_MS))
        .collect();
    assert!(left.iter().all(|hour| expected.contains(hour)), "{left:?} {expected:?}");
    while store.prune(&Keep { receipts_from: far, hours_from: far, held: None }).unwrap() {}
    assert_eq!(all_totals(&store), []);
    let dims: i64 = store.view().0.query_row("SELECT count(*) FROM dims", (), |row| row.get(0)).unwrap();
    assert_eq!(dims, 0);
}
