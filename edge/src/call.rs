//! The path of a call, top to bottom: every stage takes what the one before it gave, so that none can be left out.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base::{Code, KeyHash, Name, RegionName, RequestId};
use dialect::Api;
use edge_core::limits::Ask;
use egress::Room;
use http::header::{ALT_SVC, CONTENT_LENGTH, HeaderValue};
use http::{HeaderMap, HeaderName, Request, Response};
use seam::{Host, Late, Stop};
use telemetry::record::{Recorder, Sampling};
use telemetry::trace::{Context, Tracer};

use crate::admission::{self, Denied, Level, Permit};
use crate::config::Guard;
use crate::convert::{self, Call};
use crate::count;
use crate::counting::Counting;
use crate::debug;
use crate::dice::Dice;
use crate::dispatch::{Begun, Dispatcher};
use crate::hall::Hall;
use crate::identity;
use crate::ingress::{self, Allowed, Answer, Arrival, Asks, Flows, Upload, Verb, Via, Wanted};
use crate::metrics::Counters;
use crate::pages;
use crate::passes::{Passes, Wish};
use crate::peers::Calls;
use crate::purse::Purse;
use crate::record::{self, Known};
use crate::refusals::Refusals;
use crate::rejection::Rejection;
use crate::relay;
use crate::routing::{self, Route};
use crate::scenarios::Scenarios;
use crate::settle::{Account, Times};
use crate::snapshot::{SharedGate, Snapshots};
use crate::spans;
use crate::thresholds;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// As clients of Anthropic's API know it.
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Everything the stages share: no call's, each part made for many threads.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) host: Host,
    pub(crate) node: Name,
    pub(crate) region: RegionName,
    pub(crate) guard: Guard,
    pub(crate) debug: bool,
    pub(crate) snapshots: Snapshots,
    pub(crate) gate: SharedGate,
    /// Streams that wait under limits.
    pub(crate) hall: Hall,
    /// Room for the bodies of calls.
    pub(crate) bodies: Room,
    /// How many tokens calls have.
    pub(crate) counting: Counting,
    pub(crate) purse: Purse,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) metrics: Counters,
    pub(crate) recorder: Recorder,
    pub(crate) refusals: Refusals,
    /// The scenarios that receipts tell.
    pub(crate) scenarios: Scenarios,
    pub(crate) sampling: Sampling,
    pub(crate) tracer: Tracer,
    pub(crate) traced_per_mille: u16,
    pub(crate) dice: Dice,
    pub(crate) flows: Flows,
    /// Calls that were left by their callers and of which another node says in a moment how far they came.
    pub(crate) left: Calls,
    /// Set once links and pools had their chance to stand.
    pub(crate) warm: AtomicBool,
    /// Set when the node will leave in a moment; it still serves.
    pub(crate) leaving: AtomicBool,
    /// Asked for when the node leaves.
    pub(crate) draining: Stop,
}

/// Handles one request, a call or a page. Whatever becomes of it, the answer names the request.
pub(crate) async fn handle(edge: Arc<Edge>, request: Request<Upload>, via: Arc<Via>) -> Response<Answer> {
    let id = RequestId::new(edge.host.wall(), edge.dice.draw_wide());
    let (head, body) = request.into_parts();
    let form = ingress::form(&head.uri, &head.headers);
    let wanted = ingress::bounded(&head, edge.guard.header_bytes)
        .and_then(|()| ingress::wanted(&head.method, &head.uri, form, &via));
    // Only Gemini's API has keys in its URLs.
    let query = ingress::query(&head.uri).filter(|_pair| form.api == Api::Gemini);
    let key = identity::sent(&head.headers, query);
    let handled = match wanted {
        Ok(Wanted::Call(asks)) => {
            let (debug, verb) = (ingress::asks_debug(&head.headers, &head.uri), asks.verb);
            match arrive(&edge, (id, key), asks, &via, head.headers) {
                Ok(arrival) if verb == Verb::Count => count::answer(&edge, arrival, body).await,
                Ok(arrival) => call(&edge, Arrival { debug, ..arrival }, body).await,
                Err(rejection) => Err(rejection),
            }
        }
        Ok(Wanted::Models) => pages::models(&edge, key, form.api),
        Ok(Wanted::Model(name)) => pages::model(&edge, key, form.api, &name),
        Ok(Wanted::Health) => Ok(pages::health()),
        Ok(Wanted::Ready) => Ok(pages::ready(&edge)),
        Ok(Wanted::Metrics) => pages::metrics(&edge, &head.headers),
        Err(no_call) => Err(no_call.into()),
    };
    let mut response = handled.unwrap_or_else(|rejection| {
        edge.metrics.rejected(rejection.code());
        rejection.response(form.api)
    });
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::try_from(id.to_string()) {
        if form.api == Api::Anthropic {
            headers.insert(REQUEST_ID, id.clone());
        }
        headers.insert(X_REQUEST_ID, id);
    }
    if let Some(alt_svc) = &via.alt_svc {
        headers.insert(ALT_SVC, alt_svc.clone());
    }
    response
}

/// The request is a call: it takes one of the node's places before a byte of its body is read.
fn arrive(
    edge: &Edge,
    (request, key): (RequestId, Result<KeyHash, identity::Unknown>),
    asks: Asks,
    via: &Arc<Via>,
    headers: HeaderMap,
) -> Result<Arrival, Rejection> {
    let (started, at) = (edge.host.now(), edge.host.wall());
    let ask = Ask { enters: true, ..Ask::default() };
    let wish = Wish { level: Level::Node, gate: Arc::clone(&edge.gate), ask };
    let (mut pass, _allowance) = Passes::take(&edge.hall, &[wish], started).map_err(|limited| {
        let denied = Denied::Limit(limited);
        edge.metrics.denied(&denied);
        denied.told(started, at, asks.form.api)
    })?;
    // Whatever becomes of it, the node had to look at it.
    pass.settle(0);
    let (trace, parent) = trace(edge, &headers);
    let via = Arc::clone(via);
    let behalf = ingress::behalf(&headers)?;
    Ok(Arrival {
        request,
        started,
        at,
        operation: asks.verb.operation(),
        asks,
        key,
        via,
        headers,
        behalf,
        debug: false,
        trace,
        parent,
        _pass: pass,
    })
}

/// The call's place in its caller's trace, or a new trace. A trace that no span of ours goes to is left as it came.
fn trace(edge: &Edge, headers: &HeaderMap) -> (Context, Option<u64>) {
    let brought = headers.get("traceparent").and_then(|value| Context::parse(value.to_str().ok()?));
    match brought {
        Some(caller) if edge.tracer.traces(caller) => (caller.child(edge.dice.draw()), Some(caller.span)),
        Some(caller) => (caller, None),
        None => {
            let (wide, narrow) = (edge.dice.draw_wide(), edge.dice.draw());
            let sampled = edge.tracer.is_on() && narrow % 1_000 < u64::from(edge.traced_per_mille);
            (Context::root((wide, narrow), sampled), None)
        }
    }
}

/// The stages of a call, in order.
async fn call(edge: &Arc<Edge>, mut arrival: Arrival, body: Upload) -> Result<Response<Answer>, Rejection> {
    let host = &edge.host;
    // Who calls: before anything of the body is read, so that nobody unknown sends much.
    let caller = match identity::identify(arrival.key, &edge.snapshots, host.now()) {
        Ok(caller) => caller,
        Err(unknown) => return Err(refused(edge, &arrival, None, &Known::default(), unknown.into())),
    };
    let identified = Some(host.now());
    let known = Known { identified, ..Known::default() };
    let mut entering = Entering { edge, arrival: &mut arrival, caller: &caller, known, decided: false };
    let admitted = entering.admitted(body).await;
    entering.decided = true;
    let known = std::mem::take(&mut entering.known);
    drop(entering);
    let (call, route, permit) = match admitted {
        Ok(admitted) => admitted,
        Err(rejection) => {
            return Err(refused(edge, &arrival, Some(&caller), &known, rejection));
        }
    };
    // From here on the call owes a receipt, whatever becomes of it.
    let waited_for_credit = permit.waited();
    let times = Times { identified, admitted: Some(host.now()), waited_for_credit, ..Times::default() };
    let (notices, rates) =
        (permit.notices.clone(), permit.allowance.headers(arrival.asks.form.api, host.wall()));
    let account = Account::open(edge, arrival, caller, &call, permit, times);
    let told = answered(edge, call, route, account).await;
    told.map(|mut response| {
        response.headers_mut().extend(rates);
        for notice in notices {
            response.headers_mut().append(thresholds::HEADER, notice);
        }
        response
    })
}

/// The answer of a call that was admitted.
async fn answered(
    edge: &Arc<Edge>,
    call: Call,
    route: Route,
    account: Account,
) -> Result<Response<Answer>, Rejection> {
    let (host, stream, form) = (&edge.host, call.stream(), call.form());
    let mut dispatching: Dispatching = Box::pin(dispatch(Arc::clone(edge), call, route, account));
    if !stream {
        let (dispatched, account) = dispatching.await;
        return relay::respond(edge, dispatched, account);
    }
    // A stream's head waits for its first event, but not so long that something on the way gives up.
    match host.timeout(edge.guard.keep_alive, &mut dispatching).await {
        Ok((dispatched, account)) => relay::respond(edge, dispatched, account),
        Err(Late) => Ok(relay::respond_ahead(edge, dispatching, form)),
    }
}

/// A known caller's call until it is admitted or refused. Dropped before that, its caller is gone: it is recorded too.
struct Entering<'a> {
    edge: &'a Edge,
    arrival: &'a mut Arrival,
    caller: &'a identity::Caller,
    known: Known,
    decided: bool,
}

impl Entering<'_> {
    async fn admitted(&mut self, body: Upload) -> Result<(Call, Route, Permit), Rejection> {
        let Self { edge, arrival, caller, known, .. } = self;
        let host = &edge.host;
        let mut call = read(edge, arrival, body, known).await?;
        // How much it says: counted where a model's tokenizer is known, estimated elsewhere.
        if let Some(offer) = caller.snapshot().offer(call.model()).cloned() {
            call.count(&edge.counting, host, &offer).await;
        }
        // Where it may go, and what it can cost there at most.
        let chance = (arrival.at, edge.dice.draw());
        let mut route = routing::route(caller, &call, &arrival.behalf, &edge.region, chance)
            .inspect_err(|no_route| known.budget = no_route.budget().cloned())?;
        // Whether it may be made now: limits, then budgets.
        let admitted = admission::admit(edge, arrival, caller, &mut call, &mut route).await;
        edge.metrics.admitted(&admitted);
        let permit = admitted.map_err(|denied| {
            (known.budget, known.limit) = (denied.budget(), denied.limit());
            known.stood = edge.purse.stands(route.payers(), &route.asks());
            denied.told(host.now(), host.wall(), arrival.asks.form.api)
        })?;
        Ok((call, route, permit))
    }
}

/// What is asked: the body, whole and within bounds.
pub(crate) async fn read(
    edge: &Edge,
    arrival: &Arrival,
    body: Upload,
    known: &mut Known,
) -> Result<Call, Rejection> {
    let guard = &edge.guard;
    convert::readable(&arrival.headers)?;
    let announced = arrival.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let allowed = Allowed { limit: guard.body_bytes, within: guard.body_time, room: &edge.bodies };
    let body = body.read(&edge.host, announced, allowed).await?;
    known.bytes_in = body.len() as u64;
    let call = convert::read(&arrival.asks, body)?;
    (known.asked, known.stream) = (call.model().parse().ok(), call.stream());
    Ok(call)
}

impl Drop for Entering<'_> {
    fn drop(&mut self) {
        if !self.decided {
            let gone = Code::CallerGone;
            ended(self.edge, self.arrival, Some(self.caller), &self.known, (gone, gone.status()));
        }
    }
}

/// A call on its way to an answer, with its account.
pub(crate) type Dispatching = Pin<Box<dyn Future<Output = Dispatched> + Send>>;

/// What a call came to, and its account, still open.
pub(crate) type Dispatched = (Result<Begun, Rejection>, Account);

async fn dispatch(edge: Arc<Edge>, call: Call, mut route: Route, mut account: Account) -> Dispatched {
    let dispatched = edge.dispatcher.dispatch(&call, &mut route, &mut account).await;
    (dispatched, account)
}

/// A call that was not admitted is recorded, counted and traced, and told of when it may be.
pub(crate) fn refused(
    edge: &Edge,
    arrival: &Arrival,
    caller: Option<&identity::Caller>,
    known: &Known,
    rejection: Rejection,
) -> Rejection {
    ended(edge, arrival, caller, known, (rejection.code(), rejection.status()));
    if let Some(caller) = caller {
        edge.refusals.keep((arrival, caller), known, &rejection, edge.purse.is_attached());
    }
    let times = Times { identified: known.identified, ..Times::default() };
    let told = caller.and_then(|caller| debug::refused(edge, arrival, caller, &times));
    rejection.debugged(told)
}

/// What operators see of a call that was not admitted.
fn ended(edge: &Edge, arrival: &Arrival, caller: Option<&identity::Caller>, known: &Known, end: (Code, u16)) {
    record::refused(edge, arrival, caller, known, end);
    spans::refused(edge, arrival, known, end);
    edge.metrics.refused(arrival.operation, caller, known, record::outcome(end.0));
}
