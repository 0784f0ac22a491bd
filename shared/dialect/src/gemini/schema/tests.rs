//! Schemas in one form and the other.

use super::*;

fn losses() -> Losses {
    Losses::of(|_facet| "")
}

fn written(schema: &Value) -> (Value, Vec<String>) {
    let mut losses = losses();
    let subset = to_subset(schema, "p", &mut losses).unwrap();
    (subset, losses.told().iter().map(|loss| loss.path.clone()).collect())
}

#[test]
fn what_both_can_say_is_carried_over() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": false,
        "required": ["a"],
        "properties": {
            "a": {"type": ["integer", "null"], "exclusiveMinimum": 0, "maximum": 9},
            "b": {"enum": ["x", "y"]},
            "c": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/point"}},
            "d": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
            "e": {"oneOf": [{"type": "string"}, {"type": "number"}]},
        },
        "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}}},
    });
    let expected = json!({
        "type": "OBJECT",
        "required": ["a"],
        "properties": {
            "a": {"type": "INTEGER", "nullable": true, "minimum": 1, "maximum": 9},
            "b": {"type": "STRING", "enum": ["x", "y"]},
            "c": {"type": "ARRAY", "minItems": 1,
                "items": {"type": "OBJECT", "properties": {"x": {"type": "NUMBER"}}}},
            "d": {"type": "STRING", "format": "date-time", "nullable": true},
            "e": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]},
        },
    });
    assert_eq!(written(&schema), (expected, vec![]));
}

#[test]
fn what_the_subset_cannot_say_is_told_by_its_place() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"type": "number", "multipleOf": 0.5, "exclusiveMinimum": 1.5},
            "b": {"enum": [1, 2]},
            "c": {"type": "string", "format": "email"},
            "d": {"not": {"type": "string"}},
            "e": false,
        },
        "patternProperties": {"^x": {}},
    });
    let (_subset, lost) = written(&schema);
    let expected = [
        "p.patternProperties",
        "p.properties.a.exclusiveMinimum",
        "p.properties.a.multipleOf",
        "p.properties.b.enum",
        "p.properties.c.format",
        "p.properties.d.not",
        "p.properties.e",
    ];
    assert_eq!(lost, expected);
}

#[test]
fn all_of_several_are_one() {
    let schema = json!({"allOf": [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"], "description": "both"},
        {"description": "other"},
    ]});
    let (subset, lost) = written(&schema);
    assert_eq!(subset["required"], json!(["a", "b"]));
    assert_eq!(subset["properties"].as_object().unwrap().len(), 2);
    assert_eq!(lost, ["p.allOf[2].description"]);
}

#[test]
fn references_that_cannot_be_written_out_are_refused() {
    let circle =
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"next": {"$ref": "#/$defs/a"}}}}});
    assert_eq!(to_subset(&circle, "p", &mut losses()).unwrap_err().param, "p.properties.next");
    let elsewhere = json!({"$ref": "https://example.com/a"});
    assert_eq!(to_subset(&elsewhere, "p", &mut losses()).unwrap_err().param, "p");
    // Each definition names the one before twice: 2^16 nodes.
    let mut definitions = json!({"d0": {"type": "string"}});
    for level in 1..=16_usize {
        let before = json!({"$ref": format!("#/$defs/d{}", level - 1)});
        definitions[format!("d{level}")] = json!({"properties": {"a": before, "b": before}});
    }
    let bomb = json!({"$ref": "#/$defs/d16", "$defs": definitions});
    assert!(to_subset(&bomb, "p", &mut losses()).unwrap_err().message.contains("too large"));
    // One long text, many times.
    let list: Map<String, Value> =
        (0..99_usize).map(|number| (format!("p{number}"), json!({"$ref": "#/$defs/long"}))).collect();
    let long = json!({"properties": list, "$defs": {"long": {"description": "x".repeat(64_000)}}});
    assert!(to_subset(&long, "p", &mut losses()).unwrap_err().message.contains("too large"));
    // Each definition holds the next one: 4,000 levels.
    let definitions: Map<String, Value> = (0..4_000_usize)
        .map(|level| (format!("d{level}"), json!({"items": {"$ref": format!("#/$defs/d{}", level + 1)}})))
        .collect();
    let ladder = json!({"$ref": "#/$defs/d0", "$defs": definitions});
    assert!(to_subset(&ladder, "p", &mut losses()).unwrap_err().message.contains("too large"));
}

#[test]
fn a_place_is_told_in_bounds() {
    let mut schema = json!({"not": {}});
    for _level in 0..20 {
        schema = json!({"properties": {"k".repeat(999): schema}});
    }
    let (_subset, lost) = written(&schema);
    assert!(lost[0].len() < 640, "{}", lost[0].len());
}

#[test]
fn the_subset_is_read_as_json_schema() {
    let subset = json!({
        "type": "OBJECT",
        "property_ordering": ["n", "c"],
        "properties": {
            "n": {"type": "INTEGER", "nullable": true, "format": "int64", "enum": ["1", "2"]},
            "c": {"type": "ARRAY", "max_items": "3", "items": {"type": "STRING", "format": "enum",
                "enum": ["EAST", "WEST"]}},
            "snake_case": {"anyOf": [{"type": "STRING"}, {"type": "BOOLEAN"}], "nullable": true},
        },
    });
    let expected = json!({
        "type": "object",
        "properties": {
            "n": {"type": ["integer", "null"], "format": "int64", "enum": [1, 2, null]},
            "c": {"type": "array", "maxItems": 3, "items": {"type": "string", "enum": ["EAST", "WEST"]}},
            "snake_case": {"anyOf": [{"type": "string"}, {"type": "boolean"}, {"type": "null"}]},
        },
    });
    let mut losses = losses();
    assert_eq!(from_subset(subset, "p", &mut losses).unwrap(), expected);
    assert_eq!(losses.told()[0].path, "p.propertyOrdering");
}
