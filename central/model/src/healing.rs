//! What happens when all is well again: nobody wants credit, sessions stand, and what is sent arrives.
//!
//! The rules by which an edge speaks here are those of the product, no more: it says what is new, repeats it until central
//! heard it, and asks what became of an ask that was never answered.

use super::EDGES;
use super::central::Life;
use super::world::{Message, Protocol, World};

/// Answer to an ask, then return, then nothing.
const ROUNDS: usize = 3;

/// Whether all credit comes back that was not spent, and is not out with a life that no disk remembers.
pub(crate) fn all_comes_back(protocol: Protocol, world: &World) -> bool {
    let mut world = world.clone();
    world.sent.clear();
    for at in 0..EDGES {
        attach(&mut world, at);
        for _round in 0..ROUNDS {
            speak(protocol, &mut world, at);
        }
    }
    world.ledger.holders().all(|(life, holder)| {
        holder.closed || holder.out() == holder.spent || world.forgotten.contains(&life)
    })
}

fn attach(world: &mut World, at: usize) {
    world.attach(at);
    let held: Vec<_> =
        world.edges[at].lives.iter().map(|(life, known)| (*life, known.account.held)).collect();
    for (incarnation, held) in held {
        (0..held).for_each(|_call| world.settle(Life { edge: at, incarnation }, 0));
    }
    write_all(world, at);
    let words: Vec<_> = world.edges[at].last_words(false).collect();
    for (incarnation, spent) in words {
        world.ledger.close(Life { edge: at, incarnation }, spent);
    }
}

/// One report and its answer.
fn speak(protocol: Protocol, world: &mut World, at: usize) {
    let edge = &mut world.edges[at];
    if let Some(account) = edge.account_mut() {
        account.returned += account.available();
    }
    edge.note(0);
    write_all(world, at);
    let row: Option<Message> = protocol.row(&world.ledger, &mut world.edges[at], (at, false));
    let answer = row.and_then(|row| protocol.commit(&mut world.ledger, row, 0));
    if let Some(answer) = answer {
        protocol.deliver(&mut world.edges, answer);
    }
}

fn write_all(world: &mut World, at: usize) {
    while world.edges[at].records() > 0 {
        world.edges[at].write();
    }
}
