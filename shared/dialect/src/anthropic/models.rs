//! The models that can be asked for, as `GET /v1/models` lists them.

use bytes::Bytes;
use serde_json::{Value, json};

/// When a model was made; nothing is known of it.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// The whole list, as one page.
#[must_use]
pub fn models_list(names: &[&str]) -> Bytes {
    let data: Vec<_> = names.iter().map(|name| entry(name)).collect();
    let page = json!({"data": data, "has_more": false, "first_id": names.first(), "last_id": names.last()});
    page.to_string().into()
}

/// One of them.
#[must_use]
pub fn model(name: &str) -> Bytes {
    entry(name).to_string().into()
}

fn entry(name: &str) -> Value {
    json!({"type": "model", "id": name, "display_name": name, "created_at": CREATED})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_one_page_and_an_empty_one_has_no_ends() {
        let page: Value = serde_json::from_slice(&models_list(&["a", "b/c"])).unwrap();
        assert_eq!(
            (&page["first_id"], &page["last_id"], &page["has_more"]),
            (&"a".into(), &"b/c".into(), &false.into())
        );
        assert_eq!(page["data"][1].to_string().as_bytes(), model("b/c"));
        let empty: Value = serde_json::from_slice(&models_list(&[])).unwrap();
        assert_eq!(empty, json!({"data": [], "has_more": false, "first_id": null, "last_id": null}));
    }
}
