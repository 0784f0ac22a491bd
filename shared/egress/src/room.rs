//! How many bytes of bodies a node holds at once: a bound on memory that no number of callers passes.
//!
//! Bytes are taken before they are stored, and given back when the last who holds the body drops it. Bodies that grow
//! large leave an eighth of the room to small ones, so that a few who send much do not shut everyone out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// Up to this size a body may use the share that larger ones leave free. Most calls are smaller.
const SMALL: usize = 64 * 1024;

/// The part of the room that only small bodies use.
const KEPT: usize = 8;

/// There is no room for more bytes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no more bodies can be held at once")]
pub struct Full;

/// Room for bodies. Cheap to clone; all clones are the same room.
#[derive(Clone, Debug)]
pub struct Room {
    space: Arc<Space>,
}

#[derive(Debug)]
struct Space {
    limit: usize,
    held: AtomicUsize,
}

impl Room {
    /// Room for `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { space: Arc::new(Space { limit, held: AtomicUsize::new(0) }) }
    }

    /// Bytes held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.space.held.load(Ordering::Relaxed)
    }

    /// A body of which nothing has arrived.
    #[must_use]
    pub fn gather(&self) -> Gathering {
        let held = Held { space: Arc::clone(&self.space), bytes: 0 };
        Gathering { held, first: Bytes::new(), all: Vec::new() }
    }
}

/// Bytes taken of a room; given back on drop.
#[derive(Debug)]
struct Held {
    space: Arc<Space>,
    bytes: usize,
}

impl Held {
    /// Takes what is missing to `total`.
    fn cover(&mut self, total: usize) -> Result<(), Full> {
        let Some(more) = total.checked_sub(self.bytes).filter(|more| *more > 0) else { return Ok(()) };
        let limit = self.space.limit;
        let ceiling = if total <= SMALL { limit } else { limit - limit / KEPT };
        let grown = |held: usize| held.checked_add(more).filter(|held| *held <= ceiling);
        let taken = self.space.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        taken.map_err(|_held| Full)?;
        self.bytes = total;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.space.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A body as it arrives, piece by piece. Most are one piece: it is kept as it is.
#[derive(Debug)]
pub struct Gathering {
    held: Held,
    first: Bytes,
    all: Vec<u8>,
}

impl Gathering {
    /// Takes room for a body that said how long it is.
    ///
    /// # Errors
    /// [`Full`] when there is none.
    pub fn expect(&mut self, len: usize) -> Result<(), Full> {
        self.held.cover(len)
    }

    /// Bytes that arrived.
    #[must_use]
    pub fn len(&self) -> usize {
        self.first.len().max(self.all.len())
    }

    /// Whether nothing arrived.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a piece.
    ///
    /// # Errors
    /// [`Full`] when there is no room for it; what arrived before stays.
    pub fn push(&mut self, piece: Bytes) -> Result<(), Full> {
        let len = self.len().saturating_add(piece.len());
        if self.is_empty() {
            self.held.cover(len)?;
            self.first = piece;
            return Ok(());
        }
        if len > self.all.capacity() {
            // Doubled, so that a body of many pieces is copied few times; exact, when that is too much.
            self.held.cover(len.max(self.len() * 2)).or_else(|Full| self.held.cover(len))?;
            self.all.reserve_exact(self.held.bytes - self.all.len());
            if self.all.is_empty() {
                self.all.extend_from_slice(&std::mem::take(&mut self.first));
            }
        }
        self.all.extend_from_slice(&piece);
        Ok(())
    }

    /// The body; its room is given back when the last clone of it is dropped.
    #[must_use]
    pub fn finish(self) -> Bytes {
        let Self { held, first, all } = self;
        let bytes = if all.is_empty() { first } else { Bytes::from(all) };
        if bytes.is_empty() { bytes } else { Bytes::from_owner(Body { bytes, _held: held }) }
    }
}

/// A body and the room that it takes.
struct Body {
    bytes: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn pieces_come_out_as_one_body_and_its_room_comes_back_with_its_last_clone() {
        let room = Room::new(MIB);
        for pieces in [&["abc"][..], &["a", "b", "c"], &["ab", "", "c"]] {
            let mut body = room.gather();
            for piece in pieces {
                body.push(Bytes::from_static(piece.as_bytes())).unwrap();
            }
            let body = body.finish();
            assert_eq!(body, "abc");
            assert!(room.held() >= 3);
            let slice = body.slice(1..);
            drop(body);
            assert!(room.held() >= 3);
            drop(slice);
            assert_eq!(room.held(), 0);
        }
    }

    #[test]
    fn no_more_is_held_than_the_room_and_large_bodies_leave_some_to_small_ones() {
        let room = Room::new(MIB);
        let mut announced = room.gather();
        announced.expect(MIB / 2).unwrap();
        let mut growing = room.gather();
        let piece = Bytes::from(vec![0; 16 * 1024]);
        while growing.push(piece.clone()).is_ok() {
            assert!(room.held() <= MIB - MIB / KEPT);
        }
        assert!(room.held() > MIB - MIB / KEPT - piece.len(), "all of it is used");
        let small: Vec<_> = std::iter::from_fn(|| {
            let mut small = room.gather();
            small.push(piece.clone()).ok().map(|()| small)
        })
        .collect();
        assert!(small.len() >= MIB / KEPT / piece.len(), "{} small ones", small.len());
        assert!(room.held() <= MIB);
        drop((announced, growing, small));
        assert_eq!(room.held(), 0);
    }
}
