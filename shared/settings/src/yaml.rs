//! YAML as a tree.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use crate::{Broken, Key, Kind, Place, Value};

/// Deepest nesting of a file; ours need five.
const DEEPEST: usize = 32;

/// Most values of a file, those that aliases repeat included: a hundred thousand keys with limits of their own.
const MOST: usize = 2_000_000;

/// Reads one YAML document.
///
/// # Errors
/// [`Broken`] when it is not well formed.
pub fn yaml(text: &str) -> Result<Value, Broken> {
    bounded(text, MOST)
}

fn bounded(text: &str, most: usize) -> Result<Value, Broken> {
    if text.trim().is_empty() {
        return Ok(Value { at: Place { line: 1, column: 1 }, kind: Kind::Null });
    }
    let options = serde_saphyr::options! {
        with_snippet: false,
        strict_booleans: true,
        budget: serde_saphyr::budget! { max_depth: DEEPEST, max_nodes: most, max_events: 2 * most },
    };
    match serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options) {
        Ok(raw) => Ok(settle(raw, text)),
        Err(error) => {
            let at = error.location().map(place).unwrap_or(Place { line: 1, column: 1 });
            Err(Broken { at, what: told(&error.to_string()) })
        }
    }
}

fn told(error: &str) -> String {
    match first_line(error) {
        line if line.starts_with("budget breached: Depth") => {
            format!("values nest deeper than {DEEPEST} levels; flatten them")
        }
        line if line.starts_with("budget breached") => {
            format!("more values or aliases than a file may have ({MOST} values); split the file")
        }
        // What follows speaks of the reader's options, which are not the operator's.
        line => {
            let what = line.split_once(", set DuplicateKeyPolicy").map_or(line, |(what, _option)| what);
            format!("not well-formed YAML: {what}")
        }
    }
}

/// The first line of a message, without the position that we print ourselves.
fn first_line(what: &str) -> &str {
    let line = what.lines().next().unwrap_or(what);
    line.split_once(" at line ").map_or(line, |(before, _position)| before)
}

fn place(location: Location) -> Place {
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Place { line: narrow(location.line()), column: narrow(location.column()) }
}

/// A value as the YAML reader gives it.
enum Raw {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

fn settle(raw: Spanned<Raw>, text: &str) -> Value {
    let at = place(raw.referenced);
    let kind = match raw.value {
        Raw::Null => Kind::Null,
        Raw::Bool(value) => Kind::Bool(value),
        Raw::Number(fallback) => Kind::Number(written(raw.defined, text).map_or(fallback, str::to_owned)),
        Raw::Text(value) => Kind::Text(value),
        Raw::List(items) => Kind::List(items.into_iter().map(|item| settle(item, text)).collect()),
        Raw::Map(fields) => Kind::Map(
            fields
                .into_iter()
                .map(|(key, value)| (Key { at: place(key.referenced), name: key.value }, settle(value, text)))
                .collect(),
        ),
    };
    Value { at, kind }
}

/// The characters of a value as they stand in the file.
fn written(location: Location, text: &str) -> Option<&str> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let end = start.checked_add(usize::try_from(span.byte_len()?).ok()?)?;
    text.get(start..end).map(str::trim)
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Raw::Map(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits_and_values_their_places() {
        let text = "a:\n  - 0.1500000000000000055\n  - \"0.15\"\nb: &x 12\nc: *x\n";
        let value = yaml(text).unwrap();
        let Kind::Map(fields) = &value.kind else { panic!("{value:?}") };
        let Kind::List(items) = &fields[0].1.kind else { panic!("{value:?}") };
        assert_eq!(items[0].kind, Kind::Number("0.1500000000000000055".into()));
        assert_eq!(items[0].at, Place { line: 2, column: 5 });
        assert_eq!(items[1].kind, Kind::Text("0.15".into()));
        assert_eq!(fields[2].1.kind, Kind::Number("12".into()));
        assert_eq!(fields[2].1.at.line, 5);
        assert_eq!(value.place_of("a[1].nothing"), Place { line: 3, column: 5 });
    }

    #[test]
    fn broken_yaml_says_where() {
        let broken = yaml("a: [1, 2\nb: 3\n").unwrap_err();
        assert!(broken.at.line >= 1 && broken.what.starts_with("not well-formed YAML: "), "{broken:?}");
        let twice = yaml("a: 1\na: 2\n").unwrap_err();
        assert_eq!(
            (twice.at.line, twice.what.as_str()),
            (2, "not well-formed YAML: duplicate mapping key: a")
        );
        let deep = format!("a: {}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(yaml(&deep).is_err());
    }

    #[test]
    fn aliases_do_not_multiply_values_beyond_what_a_file_may_have() {
        let keys = "- {name: k, tenant: t, app: a, secret: s}\n".repeat(100);
        assert!(bounded(&keys, 1_000).is_ok());
        let many = bounded(&keys, 800).unwrap_err();
        assert!(many.what.ends_with("split the file"), "{many:?}");
        let mut bomb = "- &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..10 {
            let again = format!("*a{}, ", level - 1).repeat(10);
            bomb.push_str(&format!("- &a{level} [{again}]\n"));
        }
        let bombed = bounded(&bomb, 1_000).unwrap_err();
        assert!(bombed.what.ends_with("split the file"), "{bombed:?}");
    }
}
