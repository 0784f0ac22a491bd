//! How many tokens a call has, without making it: by the model's tokenizer where that is known, else an estimate.
//!
//! Nothing is charged, and no upstream is asked. The limits of rate of whoever asks apply, each count one request of no
//! tokens; the model's do not.

use std::sync::Arc;

use dialect::Api;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Response};
use wire::catalog::Operation;

use crate::admission;
use crate::call::{self, Edge};
use crate::convert::Call;
use crate::identity::{self, Caller};
use crate::ingress::{Answer, Arrival, Upload};
use crate::record::Known;
use crate::rejection::Rejection;
use crate::routing::NoRoute;

/// Says how: `counted`, or `estimated` where no tokenizer of the model is known, or media have no exact size.
const HEADER: HeaderName = HeaderName::from_static("x-portolan-count");

/// The answer to a question for a count.
///
/// # Errors
/// [`Rejection`]: it is recorded as one of a call.
pub(crate) async fn answer(
    edge: &Arc<Edge>,
    arrival: Arrival,
    body: Upload,
) -> Result<Response<Answer>, Rejection> {
    let mut known = Known::default();
    let caller = match identity::identify(arrival.key, &edge.snapshots, edge.host.now()) {
        Ok(caller) => caller,
        Err(unknown) => return Err(call::refused(edge, &arrival, None, &known, unknown.into())),
    };
    known.identified = Some(edge.host.now());
    let counted = count(edge, &arrival, &caller, body, &mut known).await;
    counted.map_err(|rejection| call::refused(edge, &arrival, Some(&caller), &known, rejection))
}

async fn count(
    edge: &Arc<Edge>,
    arrival: &Arrival,
    caller: &Caller,
    body: Upload,
    known: &mut Known,
) -> Result<Response<Answer>, Rejection> {
    let (host, api) = (&edge.host, arrival.asks.form.api);
    let (_passes, allowance) = admission::look(edge, caller).map_err(|denied| {
        edge.metrics.denied(&denied);
        known.limit = denied.limit();
        denied.told(host.now(), host.wall(), api)
    })?;
    let mut call = call::read(edge, arrival, body, known).await?;
    let offer = caller.snapshot().offer(call.model()).cloned().ok_or(NoRoute::Unknown)?;
    if !caller.principal().may_ask(call.model()) {
        return Err(NoRoute::Forbidden.into());
    }
    call.count(&edge.counting, host, &offer).await;
    let mut models = offer.candidates().map(|candidate| &candidate.model);
    let model = models.find(|model| model.operations.contains(&Operation::Chat));
    let model = model.ok_or(NoRoute::Unsupported(Operation::Chat))?;
    let exact = edge.counting.tokenizer(model).is_some() && is_text(&call, model);
    let mut response = told(api, call.size(model).likely.0, exact);
    response.headers_mut().extend(allowance.headers(api, host.wall()));
    Ok(response)
}

/// Whether all of it is text.
fn is_text(call: &Call, model: &wire::catalog::Model) -> bool {
    let size = call.size(model);
    size.likely_is_whole && size.images == 0
}

fn told(api: Api, tokens: u64, exact: bool) -> Response<Answer> {
    let mut response = Response::new(Answer::whole(api.write_counted(tokens).into()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(HEADER, HeaderValue::from_static(if exact { "counted" } else { "estimated" }));
    response
}
