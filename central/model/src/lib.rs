//! A model of the credit protocol, every state of which is visited within bounds: `cargo test -p ledger-model`.
//!
//! Two edges and central share one budget in one window. Each edge has accounts per incarnation, a journal that keeps a
//! part of what was on its way when the process ends, and calls that hold, settle and give back; central has the
//! committed ledger. Messages arrive in any order, any number of times, or never. The rules are those of
//! `edge_core::wallet` and `central_core::ledger`, in units of one call; whatever the product decides by time or demand
//! (when to ask, how much to grant, what to give back, when to raise a ceiling) may happen here at any moment.
//!
//! # What holds in every state
//!
//! - What calls cost, known to no node, and may still cost is within the limit, and so is what is out by the ledger.
//! - Each life's cost is within what the ledger charges to it; its spent and returned counters are within its grant.
//! - An edge knows of no more credit than was granted, uses nothing above its durable ceiling, and told of no return that
//!   its disk may forget.
//! - When all is well again, all credit comes back but what was spent. The checker's own liveness properties look at one
//!   path and not at "from every state", so each state is played on by the rules by which an edge speaks when nobody wants
//!   anything: sessions stand, what was sent before is lost, what is sent now arrives. Excepted is the credit of lives whose
//!   disk was lost. It stays charged until the window ends or an operator settles it.
//!
//! Two states must be reachable: the whole limit is spent; an edge gave credit back and another spent the whole limit.
//!
//! # Bounds
//!
//! Two units per life, a few messages under way that can still change something, and
//!
//! | budget | crashes | of which empty a disk | rows of a life, by number | messages | distinct states |
//! |---|---|---|---|---|---|
//! | 2 units | 1 | 1 | 1 | 2 | 675,402 |
//! | 1 unit | 2 | 1 | 1 | 2 | 800,306 |
//! | 2 units | 0 | 0 | 3 | 3 | 215,096 |
//!
//! # What each rule is for
//!
//! The same model with one rule left out must fail; the shortest failures found:
//!
//! | left out | what happens |
//! |---|---|
//! | nothing comes back by expiry | what was spent and not yet told when the deadline passed is granted again, clocks in perfect step |
//! | counters are cumulative | one grant arrives twice and is spent twice |
//! | a return is told once durable | the process ends, the next takes up the credit from the journal and spends it, and so does another edge |
//! | holds stay below the durable ceiling | the process ends with a call in progress, and the next spends the same unit |
//! | a grant is sent once committed | its entry is lost, and both edges hold the same unit |
//! | a last word is sent once the end is durable | the life was closed and its credit granted elsewhere, then the journal gives the life to another process |
//! | an ask that was not answered is repeated | the answer is lost, the edge wants nothing any more, and the unit never comes back |
//! | rows are numbered, and repeated until central heard the last | the answer to an earlier one arrives, the last one's grant is lost |
//! | a row that arrives after a later one asks for nothing | what it brings nobody waits for |
//! | nothing is asked before the journal knows the life | the process ends, and no other can give the unit back |
//!
//! # What is not here
//!
//! Receipts (they attribute what the counters already count), windows that end, rolling and soft budgets, changes of a
//! limit, restores, two processes with one certificate, the orderly stop that lowers ceilings, forgetting of closed lives.
//! Consensus is one ledger that applies an entry or never does; a session's messages are not in order, which is more than
//! can happen. A `Welcome` that is lost is one that was not sent, since registering again gives the same incarnation. These
//! are the business of the simulations, which run the product's own code.
//!
//! Neither are threads: all credit of an edge is behind one lock, so there are no memory orders to explore. The atomics
//! beside it are flags that are each read alone (a disk is full, the node is leaving).

#[cfg(test)]
mod central;
#[cfg(test)]
mod edge;
#[cfg(test)]
mod healing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

/// Edges in the model.
#[cfg(test)]
const EDGES: usize = 2;
