//! Faults planted in the product on purpose, to test the tests: the simulator must find each of them.
//!
//! One can be planted only with the feature `mutants`, which nothing but the simulator turns on, and only for the thread
//! that plants it: a simulated world has a thread of its own. Without the feature the question whether one is planted is
//! a constant, and costs nothing.

macro_rules! mutants {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// A fault that can be planted. Each stands where the product asks [`mutant!`](crate::mutant!) for it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mutant { $($(#[doc = $doc])* $name,)* }

        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }
    };
}

mutants! {
    /// The write-ahead log answers before what it wrote is synced.
    LostSync,
    /// A vote is given before it is durable.
    VoteLost,
    /// An entry counts as durable before it is written.
    EntryNotDurable,
    /// A deposed leader answers reads without asking a majority.
    ReadUnconfirmed,
    /// A central node that is cut off from the majority keeps its edges.
    CutOffKeepsEdges,
    /// Grants are sent before their entry commits.
    GrantBeforeCommit,
    /// Credit of an edge's former lives is granted once more.
    LapsedCreditGranted,
    /// What was returned is counted as a difference, though it is a sum.
    ReturnsSummed,
    /// A clock that is behind takes the ledger back into a window that ended.
    WindowReopened,
    /// The positions of receipts are ignored, so that a batch that comes again is applied again.
    ReceiptsTwice,
    /// What a crashed edge may have spent beyond its receipts is not charged.
    CrashForgotten,
    /// A change that an edge missed is taken for told when it comes back.
    RevocationLost,
    /// What was granted is counted as a difference, though it is a sum.
    GrantsSummed,
    /// Calls spend what the journal does not know yet.
    CeilingIgnored,
    /// Returns are told before they are durable.
    ReturnTooEarly,
    /// A new life of an edge is not noted in its journal.
    NewLifeNotNoted,
    /// A hold that came to nothing stays held.
    HoldLeaked,
    /// Receipts are forgotten once they are sent.
    ReceiptsForgotten,
    /// A call costs nothing when its caller leaves.
    ChargeDropped,
    /// A superseded edge goes on.
    SupersededGoesOn,
    /// Another server is asked though an answer has begun.
    AskedBehindAnswer,
    /// A stream that broke off ends as if it were whole.
    CutAsFinished,
    /// A model server's work goes on when its caller has left.
    CancelNotForwarded,
    /// A probe that tells nothing keeps an instance out for ever.
    BreakerStuck,
    /// A snapshot on disk counts as proved current when it was written down.
    AgeForgotten,
    /// A hold covers the model that comes first, and not the dearest that may serve.
    FirstModelHeld,
    /// A call costs what the model would that was tried first.
    FirstModelBilled,
    /// An edge that left in good order comes back, and no other node is told.
    ReturnUntold,
    /// A key asks for any model.
    ListIgnored,
    /// A provider that moves is asked where it was, as before.
    UpstreamKept,
    /// What one budget gave stays held when another of the call's refuses.
    TakeNotUndone,
    /// A call's second budget settles nothing.
    SecondChargeDropped,
    /// A key is used again though its provider said when.
    PaceIgnored,
    /// A call whose caller left stays in the queue.
    WaiterKept,
    /// All tenants have the same share where calls wait.
    WeightIgnored,
    /// Batch calls wait as interactive ones do.
    BatchUnyielding,
}

/// Whether a mutant is planted: `if base::mutant!(LostSync) { … }`.
#[macro_export]
macro_rules! mutant {
    ($name:ident) => {
        $crate::mutant::is_planted($crate::mutant::Mutant::$name)
    };
}

/// Whether `mutant` is planted in this thread; never without the feature `mutants`.
#[cfg(not(feature = "mutants"))]
#[must_use]
pub const fn is_planted(_mutant: Mutant) -> bool {
    false
}

#[cfg(feature = "mutants")]
pub use planted::{Planted, is_planted, plant};

#[cfg(feature = "mutants")]
mod planted {
    use std::cell::Cell;
    use std::marker::PhantomData;

    use super::Mutant;

    thread_local! {
        static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Keeps a mutant planted until it is dropped.
    #[derive(Debug)]
    #[must_use = "the mutant is gone when this is dropped"]
    pub struct Planted {
        before: Option<Mutant>,
        /// It belongs to the thread that planted it.
        _not_send: PhantomData<*const ()>,
    }

    /// Plants `mutant` in this thread, in the place of any other.
    pub fn plant(mutant: Mutant) -> Planted {
        Planted { before: PLANTED.replace(Some(mutant)), _not_send: PhantomData }
    }

    /// Whether `mutant` is planted in this thread.
    #[must_use]
    pub fn is_planted(mutant: Mutant) -> bool {
        PLANTED.get() == Some(mutant)
    }

    impl Drop for Planted {
        fn drop(&mut self) {
            PLANTED.set(self.before);
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_mutant_is_planted_until_its_guard_goes() {
            let planted = plant(Mutant::LostSync);
            assert!(crate::mutant!(LostSync) && !crate::mutant!(VoteLost));
            let other = plant(Mutant::VoteLost);
            assert!(crate::mutant!(VoteLost) && !crate::mutant!(LostSync));
            drop(other);
            assert!(crate::mutant!(LostSync));
            drop(planted);
            assert!(!crate::mutant!(LostSync));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_planted_unless_somebody_does() {
        assert!(Mutant::ALL.iter().all(|mutant| !is_planted(*mutant)));
    }
}
