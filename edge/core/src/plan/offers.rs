//! What each name that callers may ask for stands for, compiled once for each configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{ModelName, RegionName};
use wire::catalog::{Catalog, Model, Route, Strategy};

/// A model as this region sees it.
#[derive(Debug)]
pub struct Candidate {
    /// Tells models of one configuration apart.
    pub index: usize,
    /// The model.
    pub model: Model,
    /// Whether this region has a replica.
    pub local: bool,
    /// Other regions that have one, in order of their names.
    pub regions: Vec<RegionName>,
    /// Whether a provider serves it through central.
    pub relayed: bool,
}

impl Candidate {
    fn new(index: usize, model: Model, home: &RegionName) -> Self {
        let mut regions: Vec<_> = model.replicas.iter().map(|replica| replica.region.clone()).collect();
        regions.sort_unstable();
        regions.dedup();
        let everywhere = regions.len();
        regions.retain(|region| region != home);
        let local = regions.len() < everywhere;
        Self { index, local, regions, relayed: model.provider.is_some(), model }
    }
}

/// One of an offer's targets.
#[derive(Debug)]
struct Target {
    weight: u64,
    candidates: Vec<Arc<Candidate>>,
}

/// What a name stands for.
#[derive(Debug)]
pub struct Offer {
    name: ModelName,
    strategy: Strategy,
    targets: Vec<Target>,
}

impl Offer {
    /// The name it is listed under; an alias leads to the offer of its route.
    #[must_use]
    pub const fn name(&self) -> &ModelName {
        &self.name
    }

    /// Every model it may come to.
    pub fn candidates(&self) -> impl Iterator<Item = &Arc<Candidate>> {
        self.targets.iter().flat_map(|target| &target.candidates)
    }

    /// Its models, best first, given a drawn number.
    pub(super) fn in_order(&self, drawn: u64) -> impl Iterator<Item = &Arc<Candidate>> {
        let mut order = Order { left: self.targets.iter().collect(), strategy: self.strategy, drawn };
        std::iter::from_fn(move || order.next()).flat_map(|target| &target.candidates)
    }
}

/// Takes targets one by one, without putting back.
struct Order<'a> {
    left: Vec<&'a Target>,
    strategy: Strategy,
    drawn: u64,
}

impl<'a> Order<'a> {
    fn next(&mut self) -> Option<&'a Target> {
        if self.left.is_empty() {
            return None;
        }
        let at = match self.strategy {
            Strategy::Ordered => 0,
            Strategy::Weighted => self.draw(),
        };
        Some(self.left.remove(at))
    }

    /// An index below the length of what is left, by weight; by order where all weights are zero.
    fn draw(&mut self) -> usize {
        let total: u64 = self.left.iter().map(|target| target.weight).sum();
        let mut point = self.drawn.checked_rem(total).unwrap_or(0);
        self.drawn = mix(self.drawn);
        self.left
            .iter()
            .position(|target| match point.checked_sub(target.weight) {
                Some(rest) => {
                    point = rest;
                    false
                }
                None => true,
            })
            .unwrap_or(0)
    }
}

/// The next number of a drawn one (the finaliser of `splitmix64`), so that one draw orders all targets.
const fn mix(drawn: u64) -> u64 {
    let a = drawn.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let b = (a ^ (a >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let c = (b ^ (b >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    c ^ (c >> 31)
}

/// Every name that callers may ask for.
#[derive(Debug, Default)]
pub struct Offers {
    by_name: BTreeMap<ModelName, Arc<Offer>>,
}

impl Offers {
    /// Compiles a consistent catalog for one region. A route's name hides a group's or a model's of the same name.
    #[must_use]
    pub fn compile(catalog: &Catalog, home: &RegionName) -> Self {
        let models: BTreeMap<_, _> = (0..)
            .zip(catalog.models.values())
            .map(|(index, model)| (&model.name, Arc::new(Candidate::new(index, model.clone(), home))))
            .collect();
        let expand = |name: &ModelName| -> Vec<Arc<Candidate>> {
            let group = catalog.groups.get(name).map(|group| group.models.as_slice());
            let named = group.unwrap_or_else(|| std::slice::from_ref(name));
            named.iter().filter_map(|model| models.get(model).cloned()).collect()
        };
        let plain = |name: &ModelName| {
            let targets = vec![Target { weight: 1, candidates: expand(name) }];
            Arc::new(Offer { name: name.clone(), strategy: Strategy::Ordered, targets })
        };
        let mut by_name = BTreeMap::new();
        for name in catalog.models.keys().chain(catalog.groups.keys()) {
            by_name.insert(name.clone(), plain(name));
        }
        for route in catalog.routes.values() {
            let offer = Arc::new(routed(route, expand));
            for name in std::iter::once(&route.name).chain(&route.aliases) {
                by_name.insert(name.clone(), Arc::clone(&offer));
            }
        }
        Self { by_name }
    }

    /// What a name stands for.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Arc<Offer>> {
        self.by_name.get(name)
    }

    /// Every name, in order.
    pub fn names(&self) -> impl Iterator<Item = &ModelName> {
        self.by_name.keys()
    }
}

fn routed(route: &Route, expand: impl Fn(&ModelName) -> Vec<Arc<Candidate>>) -> Offer {
    let targets = route
        .targets
        .iter()
        .map(|target| Target { weight: u64::from(target.weight), candidates: expand(&target.model) })
        .collect();
    Offer { name: route.name.clone(), strategy: route.strategy, targets }
}
