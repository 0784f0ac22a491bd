//! A call as an upstream sees it: the caller's body, those of its headers that may pass, and our credential.

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;
use wire::call::CallHead;

use crate::{Upstream, headers};

/// The request; `absolute` where the target carries scheme and host. `None` when the origin cannot stand in one.
pub(crate) fn build(
    upstream: &Upstream,
    call: &CallHead,
    body: &Bytes,
    absolute: bool,
) -> Option<Request<Full<Bytes>>> {
    let mut request = Request::new(Full::new(body.clone()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = upstream.origin.target(call.operation.openai_path(), absolute)?;
    let headers = request.headers_mut();
    if !absolute {
        headers.insert(HOST, upstream.origin.host_header().clone());
    }
    pass(call, headers);
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
    // We read what passes; an upstream that compresses all the same is refused.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(credential) = &upstream.credential {
        headers.insert(AUTHORIZATION, credential.authorization().clone());
    }
    if let Some(value) = call.traceparent.as_ref().and_then(|value| HeaderValue::from_str(value).ok()) {
        headers.insert("traceparent", value);
    }
    Some(request)
}

/// The forwarding node chose the headers by the same list; a node that did not is not trusted to have.
fn pass(call: &CallHead, headers: &mut HeaderMap) {
    for (name, value) in &call.headers {
        if headers::passes_to_upstream(name)
            && let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_bytes(value))
        {
            headers.append(name, value);
        }
    }
}
