//! The list of models, as `GET /v1/models` answers it.

use bytes::Bytes;
use serde::Serialize;

/// One model of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedModel<'a> {
    /// The name callers may ask for.
    pub id: &'a str,
    /// Who offers it.
    pub owner: &'a str,
    /// When it was configured, in seconds since 1970.
    pub created: u64,
}

#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'a str,
}

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Entry<'a>>,
}

/// The list's body.
#[must_use]
pub fn models_list(models: &[ListedModel<'_>]) -> Bytes {
    let data = models
        .iter()
        .map(|model| Entry { id: model.id, object: "model", created: model.created, owned_by: model.owner })
        .collect();
    // Texts and numbers only: writing them cannot fail.
    Bytes::from(serde_json::to_vec(&List { object: "list", data }).unwrap_or_default())
}
