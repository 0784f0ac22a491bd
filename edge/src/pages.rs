//! What is not a call: the list of models, and the node's own state for those who watch it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use base::{Code, KeyHash};
use bytes::Bytes;
use dialect::gemini::Listed;
use dialect::openai::{ListedModel, models_list};
use dialect::{Api, anthropic, gemini};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use serde::Serialize;
use wire::catalog::Operation;

use crate::call::Edge;
use crate::identity::{self, Caller, Unknown};
use crate::ingress::Answer;
use crate::rejection::Rejection;

/// The key that was sent.
type Key = Result<KeyHash, Unknown>;

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
pub(crate) fn models(edge: &Edge, key: Key, api: Api) -> Result<Response<Answer>, Rejection> {
    let caller = identity::identify(key, &edge.snapshots, edge.host.now())?;
    let principal = caller.principal();
    let names = caller.snapshot().offers().names().map(|name| name.as_str());
    let names: Vec<_> = names.filter(|name| principal.may_ask(name)).collect();
    let entry = |id| ListedModel { id, owner: owner(&caller, id), created: 0 };
    Ok(json(match api {
        Api::Openai => models_list(&names.into_iter().map(entry).collect::<Vec<_>>()),
        Api::Anthropic => anthropic::models_list(&names),
        Api::Gemini => {
            gemini::models_list(&names.into_iter().map(|name| listed(&caller, name)).collect::<Vec<_>>())
        }
    }))
}

/// One of those names.
pub(crate) fn model(edge: &Edge, key: Key, api: Api, name: &str) -> Result<Response<Answer>, Rejection> {
    let caller = identity::identify(key, &edge.snapshots, edge.host.now())?;
    if caller.snapshot().offer(name).is_none() || !caller.principal().may_ask(name) {
        return Err(crate::routing::NoRoute::Unknown.into());
    }
    match api {
        Api::Openai => {}
        Api::Anthropic => return Ok(json(anthropic::model(name))),
        Api::Gemini => return Ok(json(gemini::model(&listed(&caller, name)))),
    }
    let entry = Entry { id: name, object: "model", created: 0, owned_by: owner(&caller, name) };
    let body = serde_json::to_vec(&entry).map_err(|_no_text| broken())?;
    Ok(json(body.into()))
}

/// What is told of a name in Gemini's API.
fn listed<'a>(caller: &Caller, name: &'a str) -> Listed<'a> {
    let offer = caller.snapshot().offer(name);
    let offers = |operation| {
        let mut models = offer.iter().flat_map(|offer| offer.candidates());
        models.any(|candidate| candidate.model.operations.contains(&operation))
    };
    let model = caller.snapshot().catalog().models.get(name);
    Listed {
        name,
        chats: offers(Operation::Chat),
        embeds: offers(Operation::Embeddings),
        input: model.and_then(|model| model.context).map(|tokens| tokens.0),
        output: model.and_then(|model| model.output_cap).map(|tokens| tokens.0),
    }
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
