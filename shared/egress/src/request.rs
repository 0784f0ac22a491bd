//! A call as an upstream sees it: the caller's body, those of its headers that may pass, and the credential of one of our keys.

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;
use telemetry::trace::Context;
use wire::call::CallHead;

use crate::{Credential, Upstream, api, headers};

/// The request, made within `span` if this node traces it; `absolute` where the target carries scheme and host. `None`
/// when the origin cannot stand in one, or the upstream's API has no such operation.
pub(crate) fn build(
    (upstream, credential): (&Upstream, Option<&Credential>),
    call: &CallHead,
    body: &Bytes,
    absolute: bool,
    span: Option<Context>,
) -> Option<Request<Full<Bytes>>> {
    let mut request = Request::new(Full::new(body.clone()));
    *request.method_mut() = Method::POST;
    let path = api::path(call, &upstream.upstream_model)?;
    *request.uri_mut() = upstream.origin.target(&path, absolute)?;
    let headers = request.headers_mut();
    if !absolute {
        headers.insert(HOST, upstream.origin.host_header().clone());
    }
    pass(call, headers);
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    // We read what passes; an upstream that compresses all the same is refused.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    api::introduce(call.dialect, credential, headers);
    let trace = match span {
        Some(span) => HeaderValue::try_from(span.to_string()).ok(),
        None => call.traceparent.as_ref().and_then(|value| HeaderValue::from_str(value).ok()),
    };
    if let Some(value) = trace {
        headers.insert("traceparent", value);
    }
    Some(request)
}

/// The forwarding node chose the headers by the same list; a node that did not is not trusted to have.
fn pass(call: &CallHead, headers: &mut HeaderMap) {
    for (name, value) in &call.headers {
        if headers::passes_to_upstream(name)
            && api::knows(call.dialect, name)
            && let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_bytes(value))
        {
            headers.append(name, value);
        }
    }
}
