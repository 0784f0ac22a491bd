//! TOML as a tree.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{Broken, Key, Kind, Place, Value};

/// Reads a TOML document.
///
/// # Errors
/// Every place where it is not well formed.
pub fn toml(text: &str) -> Result<Value, Vec<Broken>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        let at = Place { line: 1, column: 1 };
        return Ok(Value { at, kind: Kind::Map(fields(table.into_inner(), text)) });
    }
    let broken = errors.iter().map(|error| Broken {
        at: place(text, error.span().map_or(0, |span| span.start)),
        what: format!("not well-formed TOML: {}", error.message()),
    });
    let mut broken: Vec<_> = broken.collect();
    broken.sort_by_key(|one| (one.at.line, one.at.column));
    Err(broken)
}

fn fields(table: DeTable<'_>, text: &str) -> Vec<(Key, Value)> {
    let mut fields: Vec<_> = table
        .into_iter()
        .map(|(key, value)| {
            let at = place(text, key.span().start);
            (Key { at, name: key.into_inner().into_owned() }, settle(value, text))
        })
        .collect();
    fields.sort_by_key(|(key, _value)| (key.at.line, key.at.column));
    fields
}

fn settle(value: Spanned<DeValue<'_>>, text: &str) -> Value {
    let at = place(text, value.span().start);
    let kind = match value.into_inner() {
        DeValue::String(text) => Kind::Text(text.into_owned()),
        DeValue::Integer(number) if number.radix() == 10 => Kind::Number(number.as_str().to_owned()),
        DeValue::Integer(number) => Kind::Text(number.to_string()),
        DeValue::Float(number) => Kind::Number(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Kind::Bool(flag),
        DeValue::Datetime(moment) => Kind::Text(moment.to_string()),
        DeValue::Array(items) => Kind::List(items.into_iter().map(|item| settle(item, text)).collect()),
        DeValue::Table(table) => Kind::Map(fields(table, text)),
    };
    Value { at, kind }
}

fn place(text: &str, offset: usize) -> Place {
    let before = text.get(..offset).unwrap_or(text);
    let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    Place { line: narrow(line), column: narrow(column) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_places_and_several_faults_are_reported() {
        let text = "data = \"/x\"\n[mesh]\nlisten = \"1\"\nport = 0.10\n[[members]]\nid = 1\n";
        let value = toml(text).unwrap();
        assert_eq!(value.place_of("mesh.port"), Place { line: 4, column: 8 });
        assert_eq!(value.place_of("members[0].id"), Place { line: 6, column: 6 });
        let Kind::Map(fields) = &value.kind else { panic!() };
        let Kind::Map(mesh) = &fields[1].1.kind else { panic!() };
        assert_eq!(mesh[1].1.kind, Kind::Number("0.10".into()));
        let broken = toml("a = \nb = 1\nc = ]\n").unwrap_err();
        assert_eq!(broken[0].at.line, 1, "{broken:?}");
    }
}
