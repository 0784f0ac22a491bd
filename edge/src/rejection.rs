//! What callers are told when a call does not succeed: the only place that speaks errors to clients.
//!
//! Every stage has errors of its own; here each becomes a stable code, words that say how to mend the call, and advice
//! when to come back, in the error shape of the caller's API. Nothing internal is told: no addresses, no upstream's words unless the
//! fault is the caller's.

mod texts;

use std::borrow::Cow;
use std::time::Duration;

use base::Code;
use bytes::Bytes;
use dialect::{Api, Form};
use http::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use wire::call::Failure;

use crate::debug;
use crate::ingress::Answer;
use crate::settle::Stopped;
pub(crate) use texts::over;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// An answer that says why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    code: Code,
    message: Cow<'static, str>,
    param: Option<Cow<'static, str>>,
    retry_after: Option<Duration>,
    /// The upstream's own words, for a fault of the caller.
    upstream: Option<Box<(u16, Bytes)>>,
    allow: Option<&'static str>,
    /// What is told of rates.
    rates: Option<Box<HeaderMap>>,
    /// What a key that may debug is told beside it.
    debug: Option<Box<HeaderValue>>,
}

impl Rejection {
    pub(crate) fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            param: None,
            retry_after: None,
            upstream: None,
            allow: None,
            rates: None,
            debug: None,
        }
    }

    /// Tells a key that may debug what became of its call.
    pub(crate) fn debugged(self, told: Option<HeaderValue>) -> Self {
        Self { debug: told.map(Box::new), ..self }
    }

    fn about(self, param: impl Into<Cow<'static, str>>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    fn rates(self, told: HeaderMap) -> Self {
        Self { rates: (!told.is_empty()).then(|| Box::new(told)), ..self }
    }

    fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..self }
    }

    /// What happened.
    pub(crate) const fn code(&self) -> Code {
        self.code
    }

    /// What the caller is told.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The HTTP status it comes with.
    pub(crate) fn status(&self) -> u16 {
        self.upstream.as_ref().map_or_else(|| self.code.status(), |upstream| upstream.0)
    }

    /// The error as the last event of a stream whose head was sent.
    pub(crate) fn event(&self, form: Form) -> Bytes {
        form.error_event(self.code, &self.message)
    }

    /// The error as an HTTP answer in `api`.
    pub(crate) fn response(self, api: Api) -> Response<Answer> {
        let status = StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = match self.upstream {
            Some(upstream) => upstream.1,
            None => api.error_body(self.code, &self.message, self.param.as_deref(), self.retry_after),
        };
        let mut response = Response::new(Answer::whole(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.extend(self.rates.map(|rates| *rates).unwrap_or_default());
        headers.insert(CONTENT_TYPE, JSON);
        if let Some(wait) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds(wait)));
        }
        if let Some(methods) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(methods));
        }
        if let Some(told) = self.debug {
            headers.insert(debug::HEADER, *told);
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Whole seconds, rounded up: coming back earlier would be too early. At least one.
fn seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// Why a stream ends that broke off. No finish is invented.
pub(crate) fn cut(code: Code) -> Rejection {
    Rejection::new(code, texts::cut(code))
}

/// Why a stream ends for which a budget holds no more.
pub(crate) fn stopped(stopped: &Stopped) -> Rejection {
    Rejection::new(Code::BudgetExceeded, texts::stopped(stopped))
}

impl From<Failure> for Rejection {
    fn from(failure: Failure) -> Self {
        let upstream = match (failure.upstream_status, failure.body) {
            (Some(status @ 400..=499), Some(body)) => Some(Box::new((status, Bytes::from(body)))),
            (Some(_) | None, Some(_) | None) => None,
        };
        let retry_after = failure.retry_after_ms.map(|ms| Duration::from_millis(ms.into()));
        Self { retry_after, upstream, ..Self::new(failure.code, failure.message) }
    }
}

#[cfg(test)]
mod tests;
