//! The subset of `OpenAPI`'s schemas, read as JSON Schema.

use serde_json::{Map, Number, Value, json};

use super::inner;
use crate::canon::{Losses, Unfit};
use crate::gemini::names;

/// Reads the subset as JSON Schema. `place` is where it stands in the caller's body.
///
/// # Errors
/// [`Unfit`] where it is no schema.
pub(in crate::gemini) fn from_subset(
    subset: Value,
    place: &str,
    losses: &mut Losses,
) -> Result<Value, Unfit> {
    let mut fields = names::open(place, subset)?;
    let nullable = fields.take("nullable") == Some(Value::Bool(true));
    let kind = fields.text("type")?.map(|kind| kind.to_ascii_lowercase());
    let kind = kind.filter(|kind| kind != "type_unspecified");
    let mut out = Map::new();
    for (name, value) in fields.rest() {
        if !value.is_null() {
            read_keyword(&name, value, kind.as_deref(), place, &mut out, losses)?;
        }
    }
    out.extend(kind.map(|kind| ("type".to_owned(), kind.into())));
    if nullable {
        make_nullable(&mut out);
    }
    Ok(Value::Object(out))
}

fn read_keyword(
    name: &str,
    value: Value,
    kind: Option<&str>,
    place: &str,
    out: &mut Map<String, Value>,
    losses: &mut Losses,
) -> Result<(), Unfit> {
    let place = inner(place, name);
    let read = match (name, value) {
        ("format", Value::String(format)) if format == "enum" => return Ok(()),
        ("propertyOrdering", _) => {
            losses.drop(place, "");
            return Ok(());
        }
        ("properties", Value::Object(list)) => {
            let read = list.into_iter().map(|(key, schema)| {
                let schema = from_subset(schema, &inner(&place, &key), losses)?;
                Ok((key, schema))
            });
            Value::Object(read.collect::<Result<_, Unfit>>()?)
        }
        ("items", items @ Value::Object(_)) => from_subset(items, &place, losses)?,
        ("anyOf", Value::Array(list)) => {
            let read = list.into_iter().map(|schema| from_subset(schema, &place, losses));
            Value::Array(read.collect::<Result<_, Unfit>>()?)
        }
        ("enum", Value::Array(list)) if matches!(kind, Some("integer" | "number")) => {
            list.into_iter().map(number).collect()
        }
        ("example", example) => {
            out.insert("examples".to_owned(), Value::Array(vec![example]));
            return Ok(());
        }
        (name, value) if name.starts_with("min") || name.starts_with("max") => number(value),
        (_same, value) => value,
    };
    out.insert(name.to_owned(), read);
    Ok(())
}

/// A number that may be written as a text, as Google's JSON writes those of 64 bits.
fn number(value: Value) -> Value {
    let read = value.as_str().and_then(|text| serde_json::from_str::<Number>(text).ok());
    read.map_or(value, Value::Number)
}

fn make_nullable(out: &mut Map<String, Value>) {
    if let Some(kind) = out.get_mut("type") {
        *kind = json!([kind.clone(), "null"]);
    } else if let Some(Value::Array(list)) = out.get_mut("anyOf") {
        list.push(json!({"type": "null"}));
    }
    if let Some(Value::Array(values)) = out.get_mut("enum") {
        values.push(Value::Null);
    }
}
