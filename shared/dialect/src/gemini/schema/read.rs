//! The subset of `OpenAPI`'s schemas, read as JSON Schema.

use serde_json::{Map, Number, Value, json};

use crate::canon::{Losses, Unfit};
use crate::gemini::names;

/// Reads the subset as JSON Schema. `place` is where it stands in the caller's body.
///
/// # Errors
/// [`Unfit`] where it is no schema.
pub(in crate::gemini) fn from_subset(
    subset: &Value,
    place: &str,
    losses: &mut Losses,
) -> Result<Value, Unfit> {
    let fields = names::open(place, subset.clone())?.rest();
    let mut out = Map::new();
    let kind = fields.get("type").and_then(Value::as_str).map(str::to_ascii_lowercase);
    let kind = kind.filter(|kind| kind != "type_unspecified");
    for (name, value) in &fields {
        read_keyword(name, value, kind.as_deref(), place, &mut out, losses)?;
    }
    out.extend(kind.map(|kind| ("type".to_owned(), kind.into())));
    if fields.get("nullable") == Some(&Value::Bool(true)) {
        make_nullable(&mut out);
    }
    Ok(Value::Object(out))
}

fn read_keyword(
    name: &str,
    value: &Value,
    kind: Option<&str>,
    place: &str,
    out: &mut Map<String, Value>,
    losses: &mut Losses,
) -> Result<(), Unfit> {
    let inner = format!("{place}.{name}");
    let read = match (name, value) {
        ("type" | "nullable", _) | (_, Value::Null) => return Ok(()),
        ("format", Value::String(format)) if format == "enum" => return Ok(()),
        ("propertyOrdering", _) => {
            losses.drop(inner, "");
            return Ok(());
        }
        ("properties", Value::Object(list)) => {
            let read = list.iter().map(|(key, schema)| {
                Ok((key.clone(), from_subset(schema, &format!("{inner}.{key}"), losses)?))
            });
            Value::Object(read.collect::<Result<_, Unfit>>()?)
        }
        ("items", Value::Object(_)) => from_subset(value, &inner, losses)?,
        ("anyOf", Value::Array(list)) => {
            let read = list.iter().enumerate();
            let read = read.map(|(index, schema)| from_subset(schema, &format!("{inner}[{index}]"), losses));
            Value::Array(read.collect::<Result<_, Unfit>>()?)
        }
        ("enum", Value::Array(list)) if matches!(kind, Some("integer" | "number")) => {
            list.iter().map(number).collect()
        }
        ("example", example) => {
            out.insert("examples".to_owned(), json!([example]));
            return Ok(());
        }
        (name, _) if name.starts_with("min") || name.starts_with("max") => number(value),
        (_same, value) => value.clone(),
    };
    out.insert(name.to_owned(), read);
    Ok(())
}

/// A number that may be written as a text, as Google's JSON writes those of 64 bits.
fn number(value: &Value) -> Value {
    let read = value.as_str().and_then(|text| serde_json::from_str::<Number>(text).ok());
    read.map_or_else(|| value.clone(), Value::Number)
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
