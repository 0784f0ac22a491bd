//! Objects of Google's JSON: fields may be named in `snake_case`, and a list of one may be its one member.

use serde_json::{Map, Value};

use crate::canon::{Members, Unfit};
use crate::openai::scan;

/// The object that a body is.
pub(super) fn body(bytes: &[u8]) -> Result<Members, Unfit> {
    let unfit = |bad: crate::openai::BadRequest| Unfit::new(bad.param.unwrap_or_default(), bad.message);
    let [_contents] = scan::object(bytes, &["contents"]).map_err(unfit)?;
    let body = serde_json::from_slice(bytes);
    open("", body.map_err(|error| Unfit::new("", format!("the body is not valid JSON: {error}")))?)
}

/// The object that `value` is, its fields named in camelCase.
pub(super) fn open(path: impl Into<String>, value: Value) -> Result<Members, Unfit> {
    let path = path.into();
    let Value::Object(fields) = value else { return Members::of(path, value) };
    let mut named = Map::new();
    for (name, value) in fields {
        let name = camel(name);
        if named.contains_key(&name) {
            return Err(Unfit::new(join(&path, &name), "is given more than once; send it once"));
        }
        named.insert(name, value);
    }
    Members::of(path, Value::Object(named))
}

/// A member that is an object.
pub(super) fn object(of: &mut Members, name: &str) -> Result<Option<Members>, Unfit> {
    let path = of.path(name);
    of.take(name).map(|value| open(path, value)).transpose()
}

/// The objects of a list; none when it is absent.
pub(super) fn objects(of: &mut Members, name: &str) -> Result<Vec<Members>, Unfit> {
    let path = of.path(name);
    match of.take(name) {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => {
            let numbered = items.into_iter().enumerate();
            numbered.map(|(index, item)| open(format!("{path}[{index}]"), item)).collect()
        }
        Some(Value::Object(one)) => Ok(vec![open(path, Value::Object(one))?]),
        Some(_other) => Err(Unfit::new(path, "must be an array of objects")),
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn camel(name: String) -> String {
    if !name.contains('_') || name.starts_with('_') {
        return name;
    }
    let mut camel = String::with_capacity(name.len());
    let mut upper = false;
    for letter in name.chars() {
        match letter {
            '_' => upper = true,
            _ if upper => {
                camel.push(letter.to_ascii_uppercase());
                upper = false;
            }
            _ => camel.push(letter),
        }
    }
    camel
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_spellings_are_one_field() {
        let mut body = open("", json!({"system_instruction": {"parts": {"text": "a"}}})).unwrap();
        let mut inner = object(&mut body, "systemInstruction").unwrap().unwrap();
        let mut parts = objects(&mut inner, "parts").unwrap();
        assert_eq!(parts[0].text("text"), Ok(Some("a".to_owned())));
        let twice = open("", json!({"top_p": 1, "topP": 1}));
        assert_eq!(twice.unwrap_err().to_string(), "`topP` is given more than once; send it once");
    }

    #[test]
    fn a_list_is_a_list() {
        let mut body = open("", json!({"contents": "hi"})).unwrap();
        let error = objects(&mut body, "contents").unwrap_err();
        assert_eq!(error.to_string(), "`contents` must be an array of objects");
    }
}
