//! A JSON array of objects that comes in pieces: bytes in as the network cut them, whole elements out.
//!
//! Elements that lie whole in what was read are handed on as slices of it. Nothing here parses: brackets are counted
//! and strings skipped, and whoever takes an element finds out whether it is JSON.

use memchr::memchr2;

/// What is wrong with an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// An element exceeds the limit.
    #[error("an element exceeds {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// It is no array of objects.
    #[error("not an array of objects")]
    NotArray,
    /// It ended before its closing bracket.
    #[error("the array broke off")]
    Unfinished,
}

/// Cuts an array into its elements.
#[derive(Debug)]
pub struct Splitter {
    /// The start of an element whose end did not come yet.
    carry: Vec<u8>,
    place: Place,
    /// Brackets open within the element.
    depth: usize,
    limit: usize,
}

/// Where the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the opening bracket.
    Before,
    /// After it: an element or the end.
    First,
    /// After an element: a comma or the end.
    After,
    /// After a comma: an element.
    Next,
    /// Within an element, outside of its strings.
    Within,
    /// Within a string of an element.
    Text,
    /// After a backslash in a string.
    Escape,
    /// After the closing bracket.
    End,
}

impl Splitter {
    /// A splitter for one array; `limit` bounds an element in bytes.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { carry: Vec::new(), place: Place::Before, depth: 0, limit }
    }

    /// Takes what was read and hands each element that ends in it to `take`.
    ///
    /// # Errors
    /// [`Broken`]; the elements before have been handed on.
    pub fn push(&mut self, read: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), Broken> {
        let (mut at, mut start) = (0, 0);
        while let Some(byte) = read.get(at) {
            if self.within() {
                at = self.element(read, at);
                if self.place == Place::After {
                    self.hand(read.get(start..at).unwrap_or_default(), &mut take)?;
                }
            } else {
                start = at;
                self.between(*byte)?;
                at += usize::from(!self.within());
            }
        }
        if self.within() {
            self.carry.extend_from_slice(read.get(start..).unwrap_or_default());
            self.bounded(self.carry.len())?;
        }
        Ok(())
    }

    /// The body ended.
    ///
    /// # Errors
    /// [`Broken::Unfinished`] when the array did not.
    pub fn close(self) -> Result<(), Broken> {
        if self.place == Place::End { Ok(()) } else { Err(Broken::Unfinished) }
    }

    const fn within(&self) -> bool {
        matches!(self.place, Place::Within | Place::Text | Place::Escape)
    }

    fn bounded(&self, length: usize) -> Result<(), Broken> {
        if length > self.limit { Err(Broken::TooLong { limit: self.limit }) } else { Ok(()) }
    }

    fn hand(&mut self, end: &[u8], take: &mut impl FnMut(&[u8])) -> Result<(), Broken> {
        self.bounded(self.carry.len().saturating_add(end.len()))?;
        if self.carry.is_empty() {
            take(end);
        } else {
            self.carry.extend_from_slice(end);
            take(&self.carry);
            self.carry.clear();
        }
        Ok(())
    }

    /// Takes a byte between elements. The brace that opens one is left where it is.
    fn between(&mut self, byte: u8) -> Result<(), Broken> {
        self.place = match (self.place, byte) {
            (place, b' ' | b'\t' | b'\n' | b'\r') => place,
            (Place::Before, b'[') => Place::First,
            (Place::First | Place::Next, b'{') => Place::Within,
            (Place::First | Place::After, b']') => Place::End,
            (Place::After, b',') => Place::Next,
            (_place, _byte) => return Err(Broken::NotArray),
        };
        Ok(())
    }

    /// Goes on within an element from `at`: to its end, or to the end of what was read.
    fn element(&mut self, read: &[u8], from: usize) -> usize {
        let mut at = from;
        while let Some(byte) = read.get(at) {
            match (self.place, byte) {
                (Place::Escape, _) => self.place = Place::Text,
                (Place::Text, _) => {
                    let rest = read.get(at..).unwrap_or_default();
                    let Some(length) = memchr2(b'"', b'\\', rest) else { return read.len() };
                    at += length;
                    let escape = read.get(at) == Some(&b'\\');
                    self.place = if escape { Place::Escape } else { Place::Within };
                }
                (_, b'"') => self.place = Place::Text,
                (_, b'{' | b'[') => self.depth += 1,
                (_, b'}' | b']') => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        self.place = Place::After;
                        return at + 1;
                    }
                }
                (_, _) => {}
            }
            at += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "\n[{\"a\": \"]},\\\"{\"}\r\n,\r\n{\"b\":[{},[1,\"\\\\\"]]} , {}\n]\n";
    const ELEMENTS: [&str; 3] = ["{\"a\": \"]},\\\"{\"}", "{\"b\":[{},[1,\"\\\\\"]]}", "{}"];

    fn split(pieces: &[&[u8]], limit: usize) -> (Vec<String>, Result<(), Broken>) {
        let mut splitter = Splitter::new(limit);
        let mut elements = Vec::new();
        for piece in pieces {
            let take = |element: &[u8]| elements.push(String::from_utf8(element.to_vec()).unwrap());
            if let Err(broken) = splitter.push(piece, take) {
                return (elements, Err(broken));
            }
        }
        (elements, splitter.close())
    }

    #[test]
    fn split_at_every_byte_the_elements_are_the_same() {
        let bytes = STREAM.as_bytes();
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            let (elements, end) = split(&[head, tail], 64);
            assert_eq!(elements, ELEMENTS, "cut at {at}");
            assert_eq!(end, Ok(()));
        }
        let single: Vec<_> = bytes.chunks(1).collect();
        assert_eq!(split(&single, 64), (ELEMENTS.map(str::to_owned).to_vec(), Ok(())));
    }

    #[test]
    fn what_breaks_off_is_no_end() {
        let end = STREAM.rfind(']').unwrap();
        for at in 0..=end {
            let (_elements, closed) = split(&[&STREAM.as_bytes()[..at]], 64);
            assert_eq!(closed, Err(Broken::Unfinished), "cut at {at}");
        }
        assert_eq!(split(&[b"[ ]"], 1), (vec![], Ok(())));
    }

    #[test]
    fn an_element_is_bounded_however_it_comes() {
        let long = format!("[{{}},{{\"a\":\"{}\"}}]", "x".repeat(64));
        let pieces: Vec<_> = long.as_bytes().chunks(7).collect();
        for pieces in [vec![long.as_bytes()], pieces] {
            assert_eq!(split(&pieces, 64), (vec!["{}".to_owned()], Err(Broken::TooLong { limit: 64 })));
        }
    }

    #[test]
    fn other_json_is_no_array_of_objects() {
        for body in ["{\"error\":{}}", "<html>", "[1]", "[{} {}]", "[{},]", "[,{}]", "[] x"] {
            assert_eq!(split(&[body.as_bytes()], 64).1, Err(Broken::NotArray), "{body}");
        }
    }
}
