//! Schemas: JSON Schema, and the subset of `OpenAPI`'s that `parameters` and `responseSchema` take.
//!
//! What the subset cannot say is left out and declared as a loss by its place; a schema that refers to itself is
//! refused, because the subset has no references.

mod read;

use serde_json::{Map, Value, json};

use crate::canon::{Losses, Unfit};
use crate::openai::scan::MAX_DEPTH;

pub(super) use read::from_subset;

/// What may be written out of references, in values and in pieces of 64 letters of texts. A definition may be referred to
/// many times, by others that are, too.
const MOST_COPIED: usize = 65_536;

/// Longest path that is told, and longest key in it, in letters: callers' keys are as long as they like.
const LONGEST_PLACE: usize = 512;
const LONGEST_KEY: usize = 64;

/// Keywords that both have.
const SHARED: [&str; 15] = [
    "title",
    "description",
    "required",
    "default",
    "nullable",
    "propertyOrdering",
    "pattern",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
];

/// Keywords that say nothing of a value. Only properties that are named are made anyway.
const SILENT: [&str; 11] = [
    "$schema",
    "$id",
    "$anchor",
    "$comment",
    "$defs",
    "definitions",
    "additionalProperties",
    "deprecated",
    "readOnly",
    "writeOnly",
    "strict",
];

/// Formats that the subset takes; others are refused by some versions of the API.
const FORMATS: [&str; 6] = ["date-time", "enum", "int32", "int64", "float", "double"];

/// Writes JSON Schema as the subset. `place` is where it stands in the caller's body.
///
/// # Errors
/// [`Unfit`] where it refers to itself, to elsewhere, or grows too large.
pub(super) fn to_subset(schema: &Value, place: &str, losses: &mut Losses) -> Result<Value, Unfit> {
    let mut writing = Writing { root: schema, losses, within: Vec::new(), depth: 0, left: MOST_COPIED };
    writing.node(schema, place).map(Value::Object)
}

struct Writing<'a> {
    root: &'a Value,
    losses: &'a mut Losses,
    /// References that are being written out.
    within: Vec<&'a str>,
    /// How deep the node stands that is being written, references written out.
    depth: usize,
    left: usize,
}

impl<'a> Writing<'a> {
    fn node(&mut self, schema: &'a Value, place: &str) -> Result<Map<String, Value>, Unfit> {
        if self.depth >= MAX_DEPTH {
            return Err(too_large(place));
        }
        self.depth += 1;
        let written = self.fields(schema, place);
        self.depth -= 1;
        written
    }

    fn fields(&mut self, schema: &'a Value, place: &str) -> Result<Map<String, Value>, Unfit> {
        let Value::Object(fields) = schema else {
            if schema != &Value::Bool(true) {
                self.losses.drop(place, "any value is taken");
            }
            return Ok(Map::new());
        };
        let mut out = Map::new();
        if let Some(Value::String(reference)) = fields.get("$ref") {
            out = self.referred(reference, place)?;
        }
        for (name, value) in fields {
            self.keyword(name, value, fields, place, &mut out)?;
        }
        infer_type(&mut out);
        Ok(out)
    }

    fn referred(&mut self, reference: &'a str, place: &str) -> Result<Map<String, Value>, Unfit> {
        if self.within.contains(&reference) {
            return Err(Unfit::new(
                place,
                "refers to itself, which this model's API cannot express; unroll it",
            ));
        }
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let target =
            target.ok_or_else(|| Unfit::new(place, "refers to what is not in this schema; include it"))?;
        self.left = self.left.checked_sub(weight(target)).ok_or_else(|| too_large(place))?;
        self.within.push(reference);
        let written = self.node(target, place);
        self.within.pop();
        written
    }

    fn keyword(
        &mut self,
        name: &'a str,
        value: &'a Value,
        fields: &'a Map<String, Value>,
        place: &str,
        out: &mut Map<String, Value>,
    ) -> Result<(), Unfit> {
        let inner = inner(place, name);
        match (name, value) {
            ("$ref", _) => {}
            ("additionalProperties", Value::Object(_)) => self.losses.drop(inner, ""),
            (name, _) if SILENT.contains(&name) => {}
            (name, _) if SHARED.contains(&name) => {
                out.insert(name.to_owned(), value.clone());
            }
            ("type", _) => self.types(value, inner, out),
            ("enum", Value::Array(values)) => self.values(values, inner, out),
            ("const", value) => self.values(std::slice::from_ref(value), inner, out),
            ("anyOf" | "oneOf", Value::Array(list)) => self.alternatives(list, inner, out)?,
            ("allOf", Value::Array(list)) => self.all(list, &inner, out)?,
            ("properties", Value::Object(list)) => {
                out.insert("properties".to_owned(), self.properties(list, &inner)?);
            }
            ("items", Value::Object(_)) => {
                out.insert("items".to_owned(), self.node(value, &inner)?.into());
            }
            ("format", Value::String(format)) if FORMATS.contains(&format.as_str()) => {
                out.insert("format".to_owned(), value.clone());
            }
            ("exclusiveMinimum", bound) => self.bound(next(bound, true, fields), "minimum", inner, out),
            ("exclusiveMaximum", bound) => self.bound(next(bound, false, fields), "maximum", inner, out),
            (_other, _) => self.losses.drop(inner, ""),
        }
        Ok(())
    }

    fn properties(&mut self, list: &'a Map<String, Value>, place: &str) -> Result<Value, Unfit> {
        let written = list
            .iter()
            .map(|(key, schema)| Ok((key.clone(), Value::Object(self.node(schema, &inner(place, key))?))));
        Ok(Value::Object(written.collect::<Result<_, Unfit>>()?))
    }

    fn bound(&mut self, bound: Option<Value>, name: &str, place: String, out: &mut Map<String, Value>) {
        match bound {
            Some(bound) => self.put(out, name, bound, place),
            None => self.losses.drop(place, ""),
        }
    }

    /// Puts a field that something else may have given already.
    fn put(&mut self, out: &mut Map<String, Value>, name: &str, value: Value, place: String) {
        match out.get(name) {
            Some(other) if *other != value => self.losses.drop(place, ""),
            Some(_) | None => {
                out.insert(name.to_owned(), value);
            }
        }
    }

    fn types(&mut self, value: &Value, place: String, out: &mut Map<String, Value>) {
        let named: Vec<&str> = match value {
            Value::String(one) => vec![one],
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
        };
        let kinds: Vec<_> =
            named.iter().filter(|kind| **kind != "null").map(|kind| kind.to_uppercase()).collect();
        match (kinds.as_slice(), named.len() > kinds.len()) {
            ([], true) => self.put(out, "type", "NULL".into(), place),
            ([], false) => self.losses.drop(place, ""),
            ([one], null) => {
                self.put(out, "type", one.as_str().into(), place);
                if null {
                    out.insert("nullable".to_owned(), true.into());
                }
            }
            (several, null) => {
                let any: Vec<_> = several.iter().map(|kind| json!({"type": kind})).collect();
                self.put(out, "anyOf", any.into(), place);
                if null {
                    out.insert("nullable".to_owned(), true.into());
                }
            }
        }
    }

    /// The subset lists texts only.
    fn values(&mut self, values: &[Value], place: String, out: &mut Map<String, Value>) {
        let texts: Vec<_> = values.iter().filter(|value| !value.is_null()).cloned().collect();
        if texts.len() < values.len() {
            out.insert("nullable".to_owned(), true.into());
        }
        if texts.is_empty() || !texts.iter().all(Value::is_string) {
            self.losses.drop(place, "");
            return;
        }
        self.put(out, "enum", texts.into(), place);
    }

    fn alternatives(
        &mut self,
        list: &'a [Value],
        place: String,
        out: &mut Map<String, Value>,
    ) -> Result<(), Unfit> {
        let mut written = Vec::new();
        for (index, schema) in list.iter().enumerate() {
            if is_null(schema) {
                out.insert("nullable".to_owned(), true.into());
            } else {
                written.push(self.node(schema, &format!("{place}[{index}]"))?);
            }
        }
        if written.len() == 1 {
            for (name, value) in written.into_iter().flatten() {
                self.put(out, &name, value, format!("{place}[].{name}"));
            }
        } else if !written.is_empty() {
            self.put(out, "anyOf", written.into(), place);
        }
        Ok(())
    }

    /// All of several schemas become one.
    fn all(&mut self, list: &'a [Value], place: &str, out: &mut Map<String, Value>) -> Result<(), Unfit> {
        for (index, schema) in list.iter().enumerate() {
            let place = format!("{place}[{index}]");
            for (name, value) in self.node(schema, &place)? {
                match (out.get_mut(&name), value) {
                    (Some(Value::Object(known)), Value::Object(more)) if name == "properties" => {
                        known.extend(more);
                    }
                    (Some(Value::Array(known)), Value::Array(more)) if name == "required" => {
                        known.extend(more);
                    }
                    (_other, value) => self.put(out, &name, value, inner(&place, &name)),
                }
            }
        }
        Ok(())
    }
}

/// Where a member of a schema stands.
fn inner(place: &str, name: &str) -> String {
    if place.len() > LONGEST_PLACE {
        return place.to_owned();
    }
    let end = name.char_indices().nth(LONGEST_KEY).map_or(name.len(), |(end, _letter)| end);
    format!("{place}.{}", name.get(..end).unwrap_or_default())
}

fn too_large(place: &str) -> Unfit {
    Unfit::new(place, "grows too large when its references are written out; make it smaller")
}

/// How much a copy of a value is.
fn weight(value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() / 64,
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() / 64 + weight(value)).sum(),
    };
    inside.saturating_add(1)
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null") || schema.get("const").is_some_and(Value::is_null)
}

/// The first whole number past a bound.
fn next(bound: &Value, up: bool, fields: &Map<String, Value>) -> Option<Value> {
    let whole = match fields.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().all(|kind| kind == "integer" || kind == "null"),
        Some(kind) => kind == "integer",
        None => false,
    };
    let bound = bound.as_i64().filter(|_bound| whole)?;
    if up { bound.checked_add(1) } else { bound.checked_sub(1) }.map(Value::from)
}

/// The subset demands a type where JSON Schema does not.
fn infer_type(out: &mut Map<String, Value>) {
    if out.contains_key("type") || out.contains_key("anyOf") {
        return;
    }
    let known = [("properties", "OBJECT"), ("items", "ARRAY"), ("enum", "STRING")];
    if let Some((_, kind)) = known.into_iter().find(|(name, _kind)| out.contains_key(*name)) {
        out.insert("type".to_owned(), kind.into());
    }
}

#[cfg(test)]
mod tests;
