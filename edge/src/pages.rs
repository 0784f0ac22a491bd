//! What is not a call: the list of models, and the node's own state for those who watch it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use base::Code;
use bytes::Bytes;
use dialect::openai::{ListedModel, models_list};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde::Serialize;

use crate::call::Edge;
use crate::identity::{self, Caller};
use crate::ingress::Answer;
use crate::rejection::Rejection;

/// Who offers a model that replicas serve.
const OWNER: &str = "portolan";

#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'a str,
}

/// Every name that the caller may ask for.
pub(crate) fn models(edge: &Edge, headers: &HeaderMap) -> Result<Response<Answer>, Rejection> {
    let caller = identity::identify(headers, &edge.snapshots, edge.host.now())?;
    let principal = caller.principal();
    let listed: Vec<_> = caller
        .snapshot()
        .offers()
        .names()
        .map(|name| name.as_str())
        .filter(|name| principal.may_ask(name))
        .map(|id| ListedModel { id, owner: owner(&caller, id), created: 0 })
        .collect();
    Ok(json(models_list(&listed)))
}

/// One of those names, as a path spells it: clients of OpenAI encode the slash and the colon.
pub(crate) fn model(edge: &Edge, headers: &HeaderMap, name: &str) -> Result<Response<Answer>, Rejection> {
    let caller = identity::identify(headers, &edge.snapshots, edge.host.now())?;
    let name = &*percent_decode_str(name).decode_utf8_lossy();
    if caller.snapshot().offer(name).is_none() || !caller.principal().may_ask(name) {
        return Err(crate::routing::NoRoute::Unknown.into());
    }
    let entry = Entry { id: name, object: "model", created: 0, owned_by: owner(&caller, name) };
    let body = serde_json::to_vec(&entry).map_err(|_no_text| broken())?;
    Ok(json(body.into()))
}

/// The provider of a model that only a provider serves.
fn owner<'a>(caller: &'a Caller, name: &str) -> &'a str {
    let model = caller.snapshot().catalog().models.get(name);
    let provider = model.filter(|model| model.replicas.is_empty()).and_then(|model| model.provider.as_ref());
    provider.map_or(OWNER, |provider| provider.as_str())
}

/// The process lives.
pub(crate) fn health() -> Response<Answer> {
    text(StatusCode::OK, "alive\n".to_owned())
}

/// Whether the node takes calls, and if not, why.
pub(crate) fn ready(edge: &Edge) -> Response<Answer> {
    let why = if edge.draining.is_wanted() || edge.leaving.load(Ordering::Relaxed) {
        "draining"
    } else if edge.snapshots.age(edge.host.now()) == Duration::MAX {
        "no configuration yet"
    } else if !edge.warm.load(Ordering::Relaxed) {
        "warming up"
    } else {
        return text(StatusCode::OK, "ready\n".to_owned());
    };
    text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
}

/// Metrics for a scraper.
pub(crate) fn metrics(edge: &Edge, headers: &HeaderMap) -> Result<Response<Answer>, Rejection> {
    edge.metrics.look(edge);
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let page = edge.metrics.edge().exposition().render(accept).map_err(|_no_text| broken())?;
    let mut response = Response::new(Answer::whole(Bytes::from(page.text)));
    let content_type = HeaderValue::from_static(page.content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    Ok(response)
}

fn broken() -> Rejection {
    Rejection::new(Code::Internal, "This node could not write its answer.")
}

fn json(body: Bytes) -> Response<Answer> {
    let mut response = Response::new(Answer::whole(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn text(status: StatusCode, body: String) -> Response<Answer> {
    let mut response = Response::new(Answer::whole(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
