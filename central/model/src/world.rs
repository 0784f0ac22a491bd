//! Everything that can happen: steps of edges and of central, messages in any order and number, crashes.

use std::collections::{BTreeMap, BTreeSet};

use stateright::{Model, Property};

use super::EDGES;
use super::central::{Ledger, Life};
use super::edge::{Account, Edge};
use super::healing;

/// A rule of the protocol, left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Credit that was not reported when a perfectly synchronised deadline passed comes back to the pool.
    ReclaimAtExpiry,
    /// A grant tells how much more, not how much in all.
    GrantsSummed,
    /// A return is told before it is durable.
    ReturnTooEarly,
    /// Holds are taken beyond the durable ceiling.
    CeilingIgnored,
    /// A grant is sent though its entry may never commit.
    GrantBeforeCommit,
    /// The last word of a life is sent before its end is durable.
    LastWordTooEarly,
    /// An edge that wants nothing any more does not ask what became of its ask.
    SilentWhenIdle,
    /// Any answer counts as the answer to the last row.
    AnswersUnnumbered,
    /// A row that asks does so though a later one asked for nothing.
    LateAsksCount,
    /// Credit is asked for before it is durable that the life began.
    LifeNotNoted,
}

/// The protocol, whole or broken, and how much of it is visited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    pub(crate) broken: Option<Broken>,
    /// The budget, in units.
    pub(crate) limit: u8,
    /// Crashes in all, those included that empty a disk.
    pub(crate) crashes: u8,
    pub(crate) disk_losses: u8,
    /// Units granted to one life at most.
    pub(crate) granted: u8,
    /// Messages that can still change something, at most.
    pub(crate) messages: usize,
    /// Rows with a number of their own that one life sends, at most.
    pub(crate) rows: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Message {
    Report { life: Life, spent: u8, returned: u8, asks: bool, number: u8 },
    Grants { life: Life, granted: u8, heard: u8 },
    LastWord { life: Life, spent: u8 },
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A process registers, and hears under which incarnation it may spend.
    Attach(usize),
    /// A process takes up what its journal proves.
    Adopt(usize),
    Report {
        edge: usize,
        asks: bool,
    },
    Take(usize),
    Settle {
        edge: usize,
        incarnation: u8,
        charge: u8,
    },
    GiveBack(usize),
    Note {
        edge: usize,
        block: u8,
    },
    Write(usize),
    Crash {
        edge: usize,
        kept: usize,
    },
    LoseDisk(usize),
    LastWord {
        life: Life,
        spent: u8,
    },
    /// An entry with this message commits; its grant is so much.
    Commit {
        message: Message,
        grant: u8,
    },
    /// The answer is sent, and the entry lost.
    Answer {
        message: Message,
        grant: u8,
    },
    Deliver(Message),
    Expire(usize),
}

/// A state of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) ledger: Ledger,
    pub(crate) edges: [Edge; EDGES],
    /// All that was ever sent and can still change something: what is never taken from here is lost, what is taken
    /// twice is duplicated.
    pub(crate) sent: BTreeSet<Message>,
    crashes: u8,
    disk_losses: u8,
    /// What calls really cost, by the life that paid: known to no node.
    costs: BTreeMap<Life, u8>,
    /// Lives that no disk remembers.
    pub(crate) forgotten: BTreeSet<Life>,
}

impl World {
    /// What a life spent, and may be spending.
    fn cost(&self, life: Life) -> u8 {
        let known = self.edges[life.edge].lives.get(&life.incarnation);
        self.costs.get(&life).copied().unwrap_or(0) + known.map_or(0, |known| known.account.held)
    }

    fn total_cost(&self) -> u8 {
        self.ledger.holders().map(|(life, _holder)| self.cost(life)).sum()
    }

    pub(crate) fn attach(&mut self, at: usize) {
        let edge = &mut self.edges[at];
        edge.welcome(self.ledger.register(at, edge.boot));
    }

    pub(crate) fn settle(&mut self, life: Life, charge: u8) {
        let Some(known) = self.edges[life.edge].lives.get_mut(&life.incarnation) else { return };
        known.account.held -= 1;
        known.account.spent += charge;
        if charge > 0 {
            *self.costs.entry(life).or_default() += charge;
        }
    }

    /// Calls in progress at a process that ends cost their full holds.
    fn end_process(&mut self, edge: usize, restart: impl FnOnce(&mut Edge)) {
        self.crashes += 1;
        for (incarnation, known) in &self.edges[edge].lives {
            if known.account.held > 0 {
                *self.costs.entry(Life { edge, incarnation: *incarnation }).or_default() +=
                    known.account.held;
            }
        }
        restart(&mut self.edges[edge]);
    }

    fn lose_disk(&mut self, at: usize) {
        self.disk_losses += 1;
        let lost = self.ledger.holders().filter(|(life, holder)| life.edge == at && !holder.closed);
        self.forgotten.extend(lost.map(|(life, _holder)| life));
        self.end_process(at, Edge::lose_disk);
    }

    /// Forgets messages that change nothing any more, whatever else happens.
    fn tidy(&mut self, grants_add: bool, late_asks: bool) {
        let (ledger, edges) = (&self.ledger, &self.edges);
        self.sent.retain(|message| match *message {
            Message::Grants { life, granted, heard } => {
                let edge = &edges[life.edge];
                let news = |account: &Account| granted > account.granted || heard > account.heard;
                let known = edge.account().is_some_and(|account| edge.open && !news(account));
                edge.attached() == Some(life.incarnation) && (grants_add || !known)
            }
            Message::LastWord { life, .. } => !ledger.holder(life).closed,
            Message::Report { life, spent, returned, number, .. } => {
                let holder = ledger.holder(life);
                let newest = late_asks || number >= holder.number;
                let alive = newest && edges[life.edge].attached() == Some(life.incarnation);
                let news = spent > holder.spent || returned > holder.returned;
                !holder.closed && (ledger.may_spend(life) && alive || news)
            }
        });
    }
}

impl Protocol {
    pub(crate) fn is(self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    fn usable(self, account: &Account) -> u8 {
        if self.is(Broken::CeilingIgnored) {
            return account.available();
        }
        account.ceiling().saturating_sub(account.used())
    }

    /// The row that an edge sends now.
    pub(crate) fn row(self, ledger: &Ledger, edge: &mut Edge, (at, asks): (usize, bool)) -> Option<Message> {
        let life = Life { edge: at, incarnation: edge.attached()? };
        let noted = edge.remembers(life.incarnation) || self.is(Broken::LifeNotNoted);
        let (open, unanswered) = (edge.open, edge.unanswered);
        let account = edge.account_mut().filter(|_account| noted)?;
        let returned = match self.is(Broken::ReturnTooEarly) {
            true => account.returned,
            false => account.returned_durably(),
        };
        if open && account.number.is_multiple_of(2) != asks {
            account.number += 1;
        }
        let (spent, number) = (account.spent, account.number);
        let holder = ledger.holder(life);
        let unheard = number > account.heard || spent > holder.spent || returned > holder.returned;
        let due = asks || (open && unheard) || unanswered;
        edge.unanswered |= asks && !open && !self.is(Broken::SilentWhenIdle);
        due.then_some(Message::Report { life, spent, returned, asks, number })
    }

    fn report(self, world: &mut World, at: usize, asks: bool) {
        world.sent.extend(self.row(&world.ledger, &mut world.edges[at], (at, asks)));
    }

    /// Applies an entry; what it answers.
    pub(crate) fn commit(self, ledger: &mut Ledger, message: Message, grant: u8) -> Option<Message> {
        match message {
            Message::Report { life, spent, returned, number, .. } => {
                ledger.merge(life, (spent, returned, number));
                ledger.grant(life, grant);
                let holder = ledger.holder(life);
                let granted = if self.is(Broken::GrantsSummed) { grant } else { holder.granted };
                ledger.may_spend(life).then_some(Message::Grants { life, granted, heard: holder.number })
            }
            Message::LastWord { life, spent } => {
                ledger.close(life, spent);
                None
            }
            Message::Grants { .. } => None,
        }
    }

    /// Central's word arrives.
    pub(crate) fn deliver(self, edges: &mut [Edge; EDGES], message: Message) {
        let Message::Grants { life, granted, heard } = message else { return };
        let edge = &mut edges[life.edge];
        if edge.attached() != Some(life.incarnation) {
            return;
        }
        (edge.open, edge.unanswered) = (true, false);
        if let Some(account) = edge.account_mut() {
            account.number = account.number.max(1);
            let heard = if self.is(Broken::AnswersUnnumbered) { account.number } else { heard };
            account.heard = account.heard.max(heard);
            let summed = account.granted + granted;
            account.granted =
                if self.is(Broken::GrantsSummed) { summed } else { account.granted.max(granted) };
        }
    }

    fn expire(world: &mut World, at: usize) {
        let edge = &mut world.edges[at];
        let Some(incarnation) = edge.attached() else { return };
        if let Some(account) = edge.account_mut() {
            account.returned += account.available();
            world.ledger.reclaim(Life { edge: at, incarnation });
        }
    }

    fn steps_of(self, world: &World, at: usize, steps: &mut Vec<Step>) {
        let edge = &world.edges[at];
        steps.extend([Step::Attach(at), Step::Adopt(at), Step::Write(at)]);
        steps.extend([false, true].map(|asks| Step::Report { edge: at, asks }));
        if let Some(account) = edge.account() {
            steps.extend([0, 1].map(|block| Step::Note { edge: at, block }));
            steps.extend((self.usable(account) > 0).then_some(Step::Take(at)));
            steps.extend((account.available() > 0).then_some(Step::GiveBack(at)));
            // At its kindest: no call in progress, no grant on its way.
            let granted = edge
                .attached()
                .map(|incarnation| world.ledger.holder(Life { edge: at, incarnation }).granted);
            let still = account.held == 0 && granted == Some(account.granted);
            let expires = self.is(Broken::ReclaimAtExpiry) && still;
            steps.extend(expires.then_some(Step::Expire(at)));
        }
        for (incarnation, _known) in edge.lives.iter().filter(|(_incarnation, known)| known.account.held > 0)
        {
            steps.extend([0, 1].map(|charge| Step::Settle { edge: at, incarnation: *incarnation, charge }));
        }
        for (incarnation, spent) in edge.last_words(self.is(Broken::LastWordTooEarly)) {
            let life = Life { edge: at, incarnation };
            steps.extend((!world.ledger.holder(life).closed).then_some(Step::LastWord { life, spent }));
        }
        if world.crashes < self.crashes && !edge.lives.is_empty() {
            steps.extend((0..=edge.records()).map(|kept| Step::Crash { edge: at, kept }));
            steps.extend((world.disk_losses < self.disk_losses).then_some(Step::LoseDisk(at)));
        }
    }

    fn take(self, world: &mut World, step: Step) {
        match step {
            Step::Attach(at) => world.attach(at),
            Step::Adopt(at) => world.edges[at].adopt(),
            Step::Report { edge, asks } => self.report(world, edge, asks),
            Step::Take(at) => world.edges[at].account_mut().into_iter().for_each(|account| account.held += 1),
            Step::Settle { edge, incarnation, charge } => world.settle(Life { edge, incarnation }, charge),
            Step::GiveBack(at) => {
                world.edges[at].account_mut().into_iter().for_each(|account| account.returned += 1);
            }
            Step::Note { edge, block } => world.edges[edge].note(block),
            Step::Write(at) => world.edges[at].write(),
            Step::Crash { edge, kept } => world.end_process(edge, |edge| edge.crash(kept)),
            Step::LoseDisk(at) => world.lose_disk(at),
            Step::LastWord { life, spent } => drop(world.sent.insert(Message::LastWord { life, spent })),
            Step::Commit { message, grant } => {
                let answer = self.commit(&mut world.ledger, message, grant);
                world.sent.extend(answer);
            }
            Step::Answer { message, grant } => {
                let answer = self.commit(&mut world.ledger.clone(), message, grant);
                world.sent.extend(answer);
            }
            Step::Deliver(message) => self.deliver(&mut world.edges, message),
            Step::Expire(at) => Self::expire(world, at),
        }
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::default()]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        for at in 0..EDGES {
            self.steps_of(world, at, steps);
        }
        for message in world.sent.iter().copied() {
            let most = match message {
                Message::Grants { .. } => {
                    steps.push(Step::Deliver(message));
                    continue;
                }
                Message::Report { life, asks: true, number, .. } if world.ledger.may_spend(life) => {
                    let late = number < world.ledger.holder(life).number && !self.is(Broken::LateAsksCount);
                    if late { 0 } else { world.ledger.pool(self.limit) }
                }
                Message::Report { .. } | Message::LastWord { .. } => 0,
            };
            for grant in 0..=most {
                steps.push(Step::Commit { message, grant });
                steps.extend(self.is(Broken::GrantBeforeCommit).then_some(Step::Answer { message, grant }));
            }
        }
    }

    fn next_state(&self, last: &World, step: Step) -> Option<World> {
        let mut next = last.clone();
        self.take(&mut next, step);
        next.tidy(self.is(Broken::GrantsSummed), self.is(Broken::LateAsksCount));
        (next != *last).then_some(next)
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.sent.len() <= self.messages
            && world.ledger.holders().all(|(_life, holder)| holder.granted <= self.granted)
            && world.edges.iter().all(|edge| edge.account().is_none_or(|account| account.number <= self.rows))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NO_OVERSPENDING, Self::spends_within_the_limit),
            Property::always("no more is out than the limit", Self::grants_within_the_limit),
            Property::always("what a life spends is charged to it", Self::charges_all),
            Property::always("an edge stays within its grant and its ceiling", Self::stays_within),
            Property::always(NOTHING_STRANDED, Self::strands_nothing),
            Property::sometimes("the whole limit is spent", Self::has_spent_all),
            Property::sometimes("credit that came back is spent elsewhere", Self::has_spent_returns),
        ]
    }
}

pub(crate) const NO_OVERSPENDING: &str = "no more is spent than the limit";
pub(crate) const NOTHING_STRANDED: &str = "when all is well again, all credit comes back";

/// The properties.
impl Protocol {
    fn spends_within_the_limit(&self, world: &World) -> bool {
        world.total_cost() <= self.limit
    }

    fn grants_within_the_limit(&self, world: &World) -> bool {
        world.ledger.out() <= self.limit
    }

    fn charges_all(&self, world: &World) -> bool {
        world.ledger.holders().all(|(life, holder)| {
            holder.spent + holder.returned <= holder.granted && world.cost(life) <= holder.out()
        })
    }

    /// An edge knows of no more credit than was granted, uses none beyond its ceiling, and told of no return that its
    /// disk may not know.
    fn stays_within(&self, world: &World) -> bool {
        world.edges.iter().enumerate().all(|(at, edge)| {
            edge.lives.iter().all(|(incarnation, known)| {
                let holder = world.ledger.holder(Life { edge: at, incarnation: *incarnation });
                let account = &known.account;
                (holder.closed || holder.returned <= account.returned_durably())
                    && account.granted <= holder.granted
                    && account.used() <= account.ceiling()
            })
        })
    }

    fn strands_nothing(&self, world: &World) -> bool {
        healing::all_comes_back(*self, world)
    }

    fn has_spent_all(&self, world: &World) -> bool {
        world.costs.values().sum::<u8>() == self.limit
    }

    fn has_spent_returns(&self, world: &World) -> bool {
        let gave_back =
            |edge| world.ledger.holders().any(|(life, holder)| life.edge == edge && holder.returned > 0);
        let spent_all = |edge| {
            let costs =
                world.costs.iter().filter(|(life, _cost)| life.edge == edge).map(|(_life, cost)| *cost);
            costs.sum::<u8>() == self.limit
        };
        (0..EDGES).any(|edge| gave_back(edge) && (0..EDGES).any(|other| other != edge && spent_all(other)))
    }
}
