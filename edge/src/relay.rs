//! An answer on its way to the caller.
//!
//! What comes of a target that speaks another API than the caller is translated first (`translate`). An answer at hand
//! goes whole, with its length. An event stream goes event by event, as its caller takes it: a slow caller slows the
//! upstream. Silence is filled with comments between whole events, so that nothing on the way takes the connection for
//! dead. A stream that breaks off, or that is ended because a strict budget holds no more for it, ends with an error event;
//! no finish is ever invented. The account is closed when the answer ends, or, with what the upstream has told by then,
//! when the caller is gone.

use std::pin::Pin;
use std::sync::Arc;

use base::{Code, Mono};
use bytes::Bytes;
use dialect::gemini::Framing;
use dialect::{Form, Translator, Untold};
use egress::ReplyBody;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use tokio::time::Sleep;
use wire::call::Tail;
use wire::ledger::Outcome;

use crate::call::{Dispatching, Edge};
use crate::debug;
use crate::dispatch::{Begun, Rest};
use crate::ingress::{Answer, End, Outlet};
use crate::losses;
use crate::rejection::{self, Rejection};
use crate::settle::Account;

/// Keeps nginx and its kin from holding a stream back.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The answer's head and body for the caller. Closes the account: now, at the end of the stream, or when it is dropped.
///
/// # Errors
/// The [`Rejection`] that the call came to; its account is closed.
pub(crate) fn respond(
    edge: &Arc<Edge>,
    dispatched: Result<Begun, Rejection>,
    mut account: Account,
) -> Result<Response<Answer>, Rejection> {
    let Begun { status, mut headers, start, rest, translator } = match dispatched {
        Ok(begun) => begun,
        Err(rejection) => {
            let told = debug::header(edge, &account, None);
            account.fail(rejection.code(), rejection.status());
            return Err(rejection.debugged(told));
        }
    };
    let now = edge.host.now();
    account.answered(status, now);
    let form = form(&account);
    let streams = is_event_stream(&headers);
    if let Some(lost) = account.view().and_then(|open| losses::header(&open.losses)) {
        headers.insert(losses::HEADER, lost);
    }
    if streams && form.framing == Framing::Array {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(form.media_type()));
    }
    let body = match rest {
        Rest::Flowing(body) => body,
        Rest::Ended(tail) => {
            account.piece(start.len(), now);
            let told = debug::header(edge, &account, Some(&tail));
            account.close(tail);
            return Ok(head(status, headers, told, Answer::whole(start)));
        }
    };
    let told = debug::header(edge, &account, Some(&body.tail()));
    let relay = Relay { form, start, body, translator, account, spoke: now, quiet: None };
    let (edge, flows) = (Arc::clone(edge), edge.flows.clone());
    let answer = Answer::flow(&flows, move |outlet| async move {
        if streams { relay.events(&edge, &outlet).await } else { relay.bytes(&edge, &outlet).await }
    });
    let mut response = head(status, headers, told, answer);
    if streams {
        keep_flowing(response.headers_mut());
    }
    Ok(response)
}

/// A stream's head before its call is answered: comments until then, and a failure is told as an event.
pub(crate) fn respond_ahead(edge: &Arc<Edge>, mut dispatching: Dispatching, form: Form) -> Response<Answer> {
    let (edge, flows) = (Arc::clone(edge), edge.flows.clone());
    let answer = Answer::flow(&flows, move |outlet| async move {
        let (dispatched, mut account) = loop {
            outlet.send(form.keep_alive()).await;
            if let Ok(done) = edge.host.timeout(edge.guard.keep_alive, &mut dispatching).await {
                break done;
            }
        };
        let now = edge.host.now();
        let rejection = match dispatched {
            Ok(Begun { status, headers, start, rest, translator }) if is_event_stream(&headers) => {
                account.answered(status, now);
                return match rest {
                    Rest::Flowing(body) => {
                        let relay = Relay { form, start, body, translator, account, spoke: now, quiet: None };
                        relay.events(&edge, &outlet).await
                    }
                    Rest::Ended(tail) => at_once(&edge, &outlet, account, start, tail).await,
                };
            }
            Ok(_no_stream) => {
                Rejection::new(Code::UpstreamInvalid, "The model answered with no event stream.")
            }
            Err(rejection) => rejection,
        };
        edge.metrics.rejected(rejection.code());
        let told = debug::comment(&edge, &account, None);
        account.fail(rejection.code(), 200);
        for piece in told.into_iter().chain([rejection.event(form)]) {
            outlet.send(piece).await;
        }
        End::Whole
    });
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form.media_type()));
    keep_flowing(&mut headers);
    head(200, headers, None, answer)
}

/// An event stream that is all at hand.
async fn at_once(edge: &Edge, outlet: &Outlet, mut account: Account, events: Bytes, tail: Tail) -> End {
    account.piece(events.len(), edge.host.now());
    let told = debug::comment(edge, &account, Some(&tail));
    account.close(tail);
    for piece in [events].into_iter().chain(told) {
        outlet.send(piece).await;
    }
    End::Whole
}

/// In which form the caller is told.
fn form(account: &Account) -> Form {
    account.view().map(|open| open.arrival.asks.form).unwrap_or_default()
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    const TYPE: &[u8] = b"text/event-stream";
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    value.get(..TYPE.len()).is_some_and(|start| start.eq_ignore_ascii_case(TYPE))
}

/// Nothing on the way may hold a stream back.
fn keep_flowing(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
}

fn head(status: u16, headers: HeaderMap, told: Option<HeaderValue>, answer: Answer) -> Response<Answer> {
    let mut response = Response::new(answer);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = headers;
    if let Some(told) = told {
        response.headers_mut().insert(debug::HEADER, told);
    }
    response
}

/// An answer in progress. Dropped, it closes the account as the upstream stands: its caller is gone.
struct Relay {
    /// In which form its caller is told.
    form: Form,
    /// What is at hand; sent first.
    start: Bytes,
    body: ReplyBody,
    /// Makes events into the caller's API, where the target speaks another.
    translator: Option<Box<Translator>>,
    account: Account,
    /// When something was last said.
    spoke: Mono,
    quiet: Option<Pin<Box<Sleep>>>,
}

impl Relay {
    async fn events(mut self, edge: &Edge, outlet: &Outlet) -> End {
        loop {
            let spoke = self.spoke;
            let Some(events) = self.next(edge, outlet).await else { break };
            let told = match self.tell(&events) {
                Ok(told) => told,
                Err(untold) => return self.untold(edge, outlet, untold).await,
            };
            if !told.is_empty() {
                self.account.piece(told.len(), self.spoke);
            }
            if let Some(stopped) = self.account.writes(&events, self.spoke) {
                let last = rejection::stopped(stopped);
                let last = self.failure(&last);
                return self.stop(edge, outlet, [told, last]).await;
            }
            if told.is_empty() {
                self.spoke = spoke;
            } else {
                outlet.send(told).await;
            }
        }
        let mut tail = self.body.tail();
        let mut rest = Bytes::new();
        if tail.outcome == Outcome::Complete {
            (rest, tail) = self.finish(tail);
        }
        let last = match tail.outcome {
            Outcome::Complete => None,
            Outcome::Cut if base::mutant!(CutAsFinished) => None,
            Outcome::CallerGone | Outcome::Cut | Outcome::Failed | Outcome::Lost => {
                Some(self.failure(&rejection::cut(tail.code.unwrap_or(Code::UpstreamCut))))
            }
        };
        if !rest.is_empty() {
            self.account.piece(rest.len(), self.spoke);
        }
        let told = debug::comment(edge, &self.account, Some(&tail));
        self.account.close(tail);
        let rest = Some(rest).filter(|rest| !rest.is_empty());
        for piece in [rest, told, last].into_iter().flatten() {
            outlet.send(piece).await;
        }
        End::Whole
    }

    /// Events as the caller reads them.
    fn tell(&mut self, events: &Bytes) -> Result<Bytes, Untold> {
        match &mut self.translator {
            None => Ok(events.clone()),
            Some(translator) => translator.push(events),
        }
    }

    /// The last event of a stream that fails, after what was written of it.
    fn failure(&mut self, rejection: &Rejection) -> Bytes {
        match &mut self.translator {
            None => rejection.event(self.form),
            Some(translator) => translator.fail(rejection.code(), rejection.message()),
        }
    }

    /// What is left to tell of a stream that is whole, and how it ended after all.
    fn finish(&mut self, tail: Tail) -> (Bytes, Tail) {
        match self.translator.as_mut().map(|translator| translator.finish()) {
            None => (Bytes::new(), tail),
            Some(Ok(rest)) => (rest, tail),
            Some(Err(Untold { before })) => (before, cut(tail, Code::UpstreamInvalid)),
        }
    }

    /// Events that cannot be told to the caller: the upstream's work is cancelled.
    async fn untold(mut self, edge: &Edge, outlet: &Outlet, Untold { before }: Untold) -> End {
        let tail = cut(self.body.tail(), Code::UpstreamInvalid);
        let last = self.failure(&rejection::cut(Code::UpstreamInvalid));
        self.end(edge, outlet, [before, last], tail).await
    }

    /// A budget holds no more: the upstream's work is cancelled before the caller takes the last events.
    async fn stop(self, edge: &Edge, outlet: &Outlet, pieces: [Bytes; 2]) -> End {
        let tail = cut(self.body.tail(), Code::BudgetExceeded);
        self.end(edge, outlet, pieces, tail).await
    }

    async fn end(mut self, edge: &Edge, outlet: &Outlet, [events, last]: [Bytes; 2], tail: Tail) -> End {
        let told = debug::comment(edge, &self.account, Some(&tail));
        self.account.close(tail);
        drop(self);
        let events = Some(events).filter(|events| !events.is_empty());
        for piece in [events, told, Some(last)].into_iter().flatten() {
            outlet.send(piece).await;
        }
        End::Whole
    }

    /// The next events; while there are none, comments keep the connection alive. One timer serves the whole stream:
    /// it is set anew when it rings, not with each event.
    async fn next(&mut self, edge: &Edge, outlet: &Outlet) -> Option<Bytes> {
        loop {
            let quiet = self.quiet.get_or_insert_with(|| Box::pin(edge.host.sleep(edge.guard.keep_alive)));
            tokio::select! {
                biased;
                next = self.body.next() => {
                    self.spoke = edge.host.now();
                    return next;
                }
                () = quiet.as_mut() => {}
            }
            if edge.host.now() >= self.spoke + edge.guard.keep_alive {
                outlet.send(self.form.keep_alive()).await;
                self.spoke = edge.host.now();
            }
            quiet.set(edge.host.sleep_until(self.spoke + edge.guard.keep_alive));
        }
    }

    async fn bytes(mut self, edge: &Edge, outlet: &Outlet) -> End {
        self.account.piece(self.start.len(), edge.host.now());
        outlet.send(std::mem::take(&mut self.start)).await;
        while let Some(piece) = self.body.next().await {
            self.account.piece(piece.len(), edge.host.now());
            outlet.send(piece).await;
        }
        let tail = self.body.tail();
        let end = match tail.outcome {
            Outcome::Complete => End::Whole,
            Outcome::CallerGone | Outcome::Cut | Outcome::Failed | Outcome::Lost => End::Broken,
        };
        self.account.close(tail);
        end
    }
}

fn cut(tail: Tail, code: Code) -> Tail {
    Tail { outcome: Outcome::Cut, code: Some(code), ..tail }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if self.account.view().is_some() {
            self.account.close(self.body.tail());
        }
    }
}
