//! Who is next, against a plain list that is searched whole each time.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const BOUNDS: Bounds = Bounds { all: 12, each: 6, ages: Duration::from_secs(10) };

#[test]
fn tenants_take_turns_by_weight_and_a_flood_of_one_delays_another_by_no_more_than_a_call() {
    let mut queue = Queue::new(Bounds { all: 100, each: 60, ..BOUNDS });
    for _call in 0..40 {
        queue.join(waiter("flood", 1), "flood", at(0)).unwrap();
    }
    queue.join(waiter("late", 1), "late", at(0)).unwrap();
    assert_eq!([(); 2].map(|()| served(&mut queue, at(0))), [Some("flood"), Some("late")]);

    let mut queue = Queue::new(Bounds { all: 100, each: 60, ..BOUNDS });
    for _call in 0..20 {
        queue.join(waiter("one", 1), "one", at(0)).unwrap();
        queue.join(waiter("three", 3), "three", at(0)).unwrap();
    }
    let served: Vec<_> = (0..20).filter_map(|_turn| served(&mut queue, at(0))).collect();
    assert_eq!(served.iter().filter(|tenant| **tenant == "three").count(), 15, "{served:?}");
}

#[test]
fn batch_yields_until_it_has_aged_and_then_takes_its_turn() {
    let mut queue = Queue::new(BOUNDS);
    let batch = |tenant| Waiter { priority: Priority::Batch, ..waiter(tenant, 1) };
    queue.join(batch("a"), "batch", at(0)).unwrap();
    queue.join(waiter("a", 1), "first", at(1)).unwrap();
    queue.join(waiter("b", 1), "second", at(1)).unwrap();
    assert_eq!(served(&mut queue, at(2)), Some("first"));
    queue.join(waiter("b", 1), "third", at(3)).unwrap();
    let next = queue.next(at(10_000), |_what| Ok::<_, Lack>(())).unwrap();
    assert_eq!((next.what, next.priority), ("second", Priority::Interactive));
    // Its tenant's turn is before that of the one served last.
    let next = queue.next(at(10_000), |_what| Ok::<_, Lack>(())).unwrap();
    assert_eq!((next.what, next.priority, next.waited), ("batch", Priority::Batch, Duration::from_secs(10)));
    assert_eq!(served(&mut queue, at(10_000)), Some("third"));
}

#[test]
fn a_full_queue_says_when_to_come_and_one_tenant_never_fills_it() {
    let mut queue = Queue::new(BOUNDS);
    for _call in 0..BOUNDS.each {
        queue.join(waiter("a", 1), "a", at(0)).unwrap();
    }
    assert_eq!(queue.join(waiter("a", 1), "a", at(0)), Err(Crowded { after: SOON }));
    queue.join(waiter("b", 1), "b", at(0)).unwrap();
    assert_eq!(served(&mut queue, at(4_000)), Some("a"));
    queue.join(waiter("a", 1), "a", at(4_000)).unwrap();
    let crowded = Crowded { after: Duration::from_secs(4) };
    assert_eq!(queue.join(waiter("a", 1), "a", at(4_000)), Err(crowded));
}

#[test]
fn who_cannot_use_what_came_free_is_passed_over_and_stays_first() {
    let mut queue = Queue::new(BOUNDS);
    for what in ["picky", "modest"] {
        queue.join(waiter("a", 1), what, at(0)).unwrap();
    }
    let next = queue.next(at(0), |what| (*what == "modest").then_some(7).ok_or(Lack(1))).unwrap();
    assert_eq!((next.what, next.with), ("modest", 7));
    queue.join(waiter("a", 1), "later", at(0)).unwrap();
    assert_eq!(served(&mut queue, at(0)), Some("picky"));
}

#[test]
fn who_is_served_with_what_others_cannot_use_leaves_their_shares_as_they_are() {
    let mut queue = Queue::new(Bounds { all: 200, each: 100, ..BOUNDS });
    for _call in 0..60 {
        for (tenant, weight) in [("gold", 3), ("silver", 1), ("apart", 1)] {
            queue.join(waiter(tenant, weight), tenant, at(0)).unwrap();
        }
    }
    let mut gold = 0;
    for _turn in 0..40 {
        queue.next(at(0), |what| (*what == "apart").then_some(()).ok_or(Lack(1))).unwrap();
        let next = queue.next(at(0), |what| (*what != "apart").then_some(()).ok_or(Lack(2)));
        gold += u32::from(next.unwrap().what == "gold");
    }
    assert_eq!(gold, 30, "of 40 places that gold and silver share");
}

proptest! {
    /// The list: of all that wait and can be served, the least by class, tag, tenant and arrival.
    #[test]
    fn it_serves_whom_the_plain_list_says(steps in proptest::collection::vec(step(), 1..200)) {
        let (mut queue, mut list, mut now) = (Queue::new(BOUNDS), List::default(), at(0));
        for step in steps {
            match step {
                Step::Wait(ms) => now = now + Duration::from_millis(ms),
                Step::Join(waiter, patience) => {
                    let waiter = Waiter { until: now + patience, ..waiter };
                    let joined = queue.join(waiter.clone(), list.next, now);
                    let of_tenant = list.waiting.iter().filter(|one| one.waiter.tenant == waiter.tenant);
                    let room = list.waiting.len() < BOUNDS.all && of_tenant.count() < BOUNDS.each;
                    prop_assert_eq!(joined.is_ok(), room);
                    if let Ok(turn) = joined {
                        list.join(waiter, turn, now);
                    }
                }
                Step::Leave(which) if !list.waiting.is_empty() => {
                    let left = list.waiting.remove(which % list.waiting.len());
                    list.rest();
                    prop_assert!(queue.leave(left.turn));
                    prop_assert!(!queue.leave(left.turn));
                }
                Step::Leave(_) => {}
                Step::Next(usable) => {
                    let can = |what: &u32| usable >> (what % 8) & 1 == 1;
                    let offer = |what: &u32| can(what).then_some(()).ok_or_else(|| lack_of(*what));
                    let served = queue.next(now, offer).map(|served| served.what);
                    prop_assert_eq!(served, list.serve(now, can));
                }
            }
            let waiting = Priority::ALL.map(|priority| queue.depth(priority));
            prop_assert_eq!(waiting.iter().sum::<usize>(), list.waiting.len());
            prop_assert!(queue.flows.len() <= list.tenants.len());
            let lacked: BTreeSet<_> = list.waiting.iter().map(|one| one.waiter.lack).collect();
            prop_assert_eq!(queue.lacks.keys().copied().collect::<BTreeSet<_>>(), lacked);
        }
    }

    /// Tenants that keep waiting get what their weights say, within a call each, whatever others come and go.
    #[test]
    fn shares_follow_weights(
        weights in proptest::collection::vec(1u32..20, 2..5), others in proptest::collection::vec(0u8..4, 40..300),
    ) {
        let mut queue = Queue::new(Bounds { all: 1_000, each: 100, ..BOUNDS });
        let mut counts = vec![0u64; weights.len()];
        for (which, weight) in weights.iter().enumerate() {
            for _call in 0..2 {
                queue.join(waiter(&format!("t{which}"), *weight), Some(which), at(0)).unwrap();
            }
        }
        for other in others {
            if other < 2 {
                queue.join(waiter(&format!("o{other}"), 3), None, at(0)).unwrap();
            }
            let Some(which) = queue.next(at(0), |_what| Ok::<_, Lack>(())).unwrap().what else { continue };
            counts[which] += 1;
            queue.join(waiter(&format!("t{which}"), weights[which]), Some(which), at(0)).unwrap();
        }
        for (one, weight) in counts.iter().zip(&weights) {
            for (other, heavier) in counts.iter().zip(&weights) {
                let (weight, heavier) = (u64::from(*weight), u64::from(*heavier));
                let apart = (one * heavier).abs_diff(other * weight);
                prop_assert!(apart <= weight + heavier, "{counts:?} of {weights:?}");
            }
        }
    }

    /// However much comes before it, a batch call is served once it has aged and each tenant had its share of turns.
    #[test]
    fn nobody_waits_for_ever(weight in 1u32..10, rivals in proptest::collection::vec(1u32..10, 1..5)) {
        let mut queue = Queue::new(Bounds { all: 100, each: 20, ..BOUNDS });
        let poor = Waiter { priority: Priority::Batch, ..waiter("poor", weight) };
        queue.join(poor, "poor", at(0)).unwrap();
        let (mut now, mut turns) = (at(0), 0);
        loop {
            for (which, weight) in rivals.iter().enumerate() {
                while queue.join(waiter(&format!("t{which}"), *weight), "rival", now).is_ok() {}
            }
            now = now + Duration::from_millis(100);
            if served(&mut queue, now) == Some("poor") {
                break;
            }
            turns += u32::from(now >= at(10_000));
            prop_assert!(turns <= 1 + u32::try_from(rivals.len()).unwrap(), "{turns} turns after it aged");
        }
        prop_assert!(now >= at(10_000));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Join(Waiter, Duration),
    Leave(usize),
    Next(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let join = (0usize..4, 0u32..5, any::<bool>(), 0u64..30_000).prop_map(|(tenant, weight, batch, ms)| {
        let priority = if batch { Priority::Batch } else { Priority::Interactive };
        let waiter = Waiter { priority, ..waiter(["a", "b", "c", "d"][tenant], weight) };
        Step::Join(waiter, Duration::from_millis(ms))
    });
    prop_oneof![
        1 => (0u64..6_000).prop_map(Step::Wait),
        4 => join,
        1 => any::<usize>().prop_map(Step::Leave),
        3 => any::<u8>().prop_map(Step::Next),
    ]
}

#[derive(Default)]
struct List {
    waiting: Vec<Listed>,
    tenants: BTreeSet<TenantName>,
    tags: BTreeMap<(Lack, TenantName), [u64; 2]>,
    clocks: BTreeMap<Lack, [u64; 2]>,
    next: u32,
}

struct Listed {
    waiter: Waiter,
    turn: Turn,
    since: Mono,
    what: u32,
}

/// What a call is told to lack that cannot be served.
fn lack_of(what: u32) -> Lack {
    Lack(u64::from(what % 3))
}

impl List {
    fn join(&mut self, waiter: Waiter, turn: Turn, since: Mono) {
        // The last weight that a tenant was told of counts.
        for one in self.waiting.iter_mut().filter(|one| one.waiter.tenant == waiter.tenant) {
            one.waiter.weight = waiter.weight;
        }
        self.tenants.insert(waiter.tenant.clone());
        self.waiting.push(Listed { waiter, turn, since, what: self.next });
        self.next += 1;
    }

    fn serve(&mut self, now: Mono, can: impl Fn(&u32) -> bool) -> Option<u32> {
        (0..2).find_map(|class| self.serve_class(class, now, &can))
    }

    fn serve_class(&mut self, class: usize, now: Mono, can: &impl Fn(&u32) -> bool) -> Option<u32> {
        let is_of_class = |one: &Listed| {
            let fresh = now.since(one.since) < BOUNDS.ages;
            usize::from(one.waiter.priority == Priority::Batch && fresh) == class
        };
        let mut order: Vec<_> = (self.waiting.iter())
            .filter(|one| one.waiter.until > now && is_of_class(one))
            .map(|one| (self.tag(one, class), one.waiter.tenant.clone(), one.turn))
            .collect();
        order.sort();
        for (tag, tenant, turn) in order {
            let at = self.waiting.iter().position(|one| one.turn == turn)?;
            if !can(&self.waiting[at].what) {
                self.waiting[at].waiter.lack = lack_of(self.waiting[at].what);
                continue;
            }
            let served = self.waiting.remove(at);
            let lack = served.waiter.lack;
            self.clocks.entry(lack).or_default()[class] = tag;
            let tags = self.tags.entry((lack, tenant)).or_default();
            tags[class] = tag + STRIDE / u64::from(served.waiter.weight.max(1));
            self.rest();
            return Some(served.what);
        }
        self.rest();
        None
    }

    fn tag(&self, one: &Listed, class: usize) -> u64 {
        let lack = one.waiter.lack;
        let of = |tags: Option<&[u64; 2]>| tags.map_or(0, |tags| tags[class]);
        of(self.tags.get(&(lack, one.waiter.tenant.clone()))).max(of(self.clocks.get(&lack)))
    }

    /// What nobody lacks is forgotten.
    fn rest(&mut self) {
        let lacked: BTreeSet<_> = self.waiting.iter().map(|one| one.waiter.lack).collect();
        self.clocks.retain(|lack, _clocks| lacked.contains(lack));
        self.tags.retain(|(lack, _tenant), _tags| lacked.contains(lack));
    }
}

fn waiter(tenant: &str, weight: u32) -> Waiter {
    Waiter {
        tenant: tenant.parse().unwrap(),
        weight,
        priority: Priority::Interactive,
        until: Mono::FAR,
        lack: Lack(0),
    }
}

fn served<T>(queue: &mut Queue<T>, now: Mono) -> Option<T> {
    queue.next(now, |_what| Ok::<_, Lack>(())).map(|served| served.what)
}

fn at(ms: u64) -> Mono {
    Mono::ZERO + Duration::from_millis(ms)
}
