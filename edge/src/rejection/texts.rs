//! The words, one conversion a stage.

use std::sync::Arc;
use std::time::Duration;

use base::{Amount, Code, ModelName, Mono, Unit, WallMs};
use dialect::Api;
use dialect::canon::Unfit;
use edge_core::bound::Lacks;
use edge_core::limits::{Per, Refused};
use wire::catalog::{Budget, Feature, Window};

use super::Rejection;
use crate::admission::{Denied, Level};
use crate::convert::Unreadable;
use crate::identity::Unknown;
use crate::ingress::{BadHeader, BodyError, NoCall, PRIORITY, USER};
use crate::passes::Limited;
use crate::purse::Refusal;
use crate::routing::NoRoute;
use crate::settle::Stopped;

/// When to come back after a limit on what is in progress: when something ends, nobody knows.
const SOON: Duration = Duration::from_secs(1);

/// What a caller is told whose stream broke off.
pub(super) const fn cut(code: Code) -> &'static str {
    match code {
        Code::UpstreamTimeout => "The model stopped sending; the answer is incomplete.",
        Code::DeadlineExceeded => "The call's time is over; the answer is incomplete.",
        Code::MeshUnreachable => "The connection to the model's region broke off; the answer is incomplete.",
        _any_other => "The model's answer broke off; it is incomplete.",
    }
}

/// What the caller of a stream is told for which a budget holds no more.
pub(super) fn stopped(stopped: &Stopped) -> String {
    format!(
        "The model wrote more than it was asked for, and budget {} holds no more for this call; the answer is incomplete.",
        stopped.budget
    )
}

impl From<NoCall> for Rejection {
    fn from(error: NoCall) -> Self {
        match error {
            NoCall::Path => Self::new(
                Code::NotFound,
                "There is no such path. Calls go to /v1/chat/completions, /v1/embeddings, /v1/messages or /v1beta/models/MODEL:generateContent; GET /v1/models lists what can be asked for.",
            ),
            NoCall::Headers { limit } => {
                Self::new(Code::HeadersTooLarge, format!("The headers exceed the limit of {limit} bytes."))
            }
            NoCall::Method(allow) => Self {
                allow: Some(allow),
                ..Self::new(Code::MethodNotAllowed, format!("This path takes {allow} only."))
            },
        }
    }
}

impl From<BadHeader> for Rejection {
    fn from(BadHeader(name): BadHeader) -> Self {
        let is = match name {
            USER => "1 to 256 bytes, once",
            PRIORITY => "`interactive` or `batch`, once",
            _scenario => "one name of letters, digits, `-`, `_` and `.`",
        };
        Self::new(Code::InvalidRequest, format!("The header `{name}` is not {is}. Mend it or leave it out."))
    }
}

impl From<Unknown> for Rejection {
    fn from(error: Unknown) -> Self {
        match error {
            Unknown::Missing => Self::new(
                Code::MissingKey,
                "No API key was sent. Send the header `Authorization: Bearer YOUR_KEY`.",
            ),
            Unknown::Malformed => Self::new(
                Code::InvalidKey,
                "The Authorization header is malformed. Send the header `Authorization: Bearer YOUR_KEY`.",
            ),
            Unknown::Several => Self::new(
                Code::InvalidKey,
                "Several API keys were sent, and they differ. Send one, in `Authorization`, `x-api-key` or `x-goog-api-key`.",
            ),
            Unknown::NoSuchKey => Self::new(
                Code::InvalidKey,
                "The API key is not valid. Check it for typing errors, or ask your operator for a new one.",
            ),
            Unknown::Revoked => {
                Self::new(Code::InvalidKey, "The API key was revoked. Ask your operator for a new one.")
            }
            Unknown::NoConfiguration => Self::new(
                Code::ConfigStale,
                "This node has no configuration yet. Send the call again in a moment.",
            )
            .retry_after(SOON),
            Unknown::Stale => Self::new(
                Code::ConfigStale,
                "This node could not refresh its configuration for longer than your tenant allows.",
            )
            .retry_after(SOON),
        }
    }
}

impl From<BodyError> for Rejection {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge { limit } => {
                Self::new(Code::BodyTooLarge, format!("The body exceeds the limit of {limit} bytes."))
            }
            BodyError::Slow(within) => Self::new(
                Code::RequestTimeout,
                format!("The body did not arrive within {} seconds.", within.as_secs()),
            ),
            BodyError::Truncated => {
                Self::new(Code::InvalidRequest, "The body broke off before its end; send the call again.")
            }
            BodyError::NoRoom(_full) => Self::new(
                Code::Overloaded,
                "This node holds as many bodies of calls as it can. Send the call again in a moment.",
            )
            .retry_after(SOON),
        }
    }
}

impl From<Unreadable> for Rejection {
    fn from(error: Unreadable) -> Self {
        match error {
            Unreadable::MediaType => Self::new(
                Code::UnsupportedMediaType,
                "The body must be JSON. Send the header `Content-Type: application/json`.",
            ),
            Unreadable::Encoded => Self::new(
                Code::UnsupportedMediaType,
                "The body is compressed. Send it without Content-Encoding, and with no Transfer-Encoding but chunked.",
            ),
            Unreadable::Unfit(unfit) => unfit.into(),
            Unreadable::Body(bad) => {
                let rejection = Self::new(Code::InvalidRequest, bad.message);
                match bad.param {
                    Some(param) => rejection.about(param),
                    None => rejection,
                }
            }
        }
    }
}

impl From<Unfit> for Rejection {
    fn from(error: Unfit) -> Self {
        let words = match error.param.as_str() {
            "" => error.message,
            _field => error.to_string(),
        };
        let rejection = Self::new(Code::InvalidRequest, words);
        if error.param.is_empty() { rejection } else { rejection.about(error.param) }
    }
}

impl From<NoRoute> for Rejection {
    fn from(error: NoRoute) -> Self {
        match error {
            NoRoute::Unknown => Self::new(
                Code::ModelNotFound,
                "There is no model, alias, route or group of that name. GET /v1/models lists what can be asked for.",
            )
            .about("model"),
            NoRoute::Forbidden => Self::new(
                Code::Forbidden,
                "The API key may not use this model. GET /v1/models lists what it may use.",
            )
            .about("model"),
            NoRoute::Unsupported(operation) => Self::new(
                Code::Unsupported,
                format!("The model does not offer {}. Choose another model.", operation.as_str()),
            )
            .about("model"),
            NoRoute::Unbounded { budget, model, lacks } => Self::new(
                Code::UnboundedCost,
                format!(
                    "The strict budget {budget} pays for this call, but its cost has no upper bound: {}",
                    unbounded(&model, lacks)
                ),
            ),
        }
    }
}

/// What is missing, and what helps: the caller can bound a call's size, but only the operator can price a model.
fn unbounded(model: &ModelName, lacks: Lacks) -> String {
    let chosen = |given: [Option<String>; 3]| given.into_iter().flatten().collect::<Vec<_>>().join(" and ");
    let price = || lacks.price.then(|| "`price`".to_owned());
    let output = |text: &str| lacks.output.then(|| text.to_owned());
    let missing = chosen([
        lacks.price.then(|| "no `price`".to_owned()),
        lacks.input.map(|part| format!("no {} (which bounds `{part}`)", bounding(part))),
        output("no `output_cap`, while the call has no `max_tokens`"),
    ]);
    let text_only = lacks.input.map(|_part| "text only".to_owned());
    let caller = chosen([None, text_only, output("`max_tokens`")]);
    let operator =
        chosen([price(), lacks.input.map(|part| bounding(part).to_owned()), output("`output_cap`")]);
    let mend = if lacks.price { "Ask".to_owned() } else { format!("Send {caller}, or ask") };
    format!("model {model} has {missing}. {mend} your operator to give the model {operator}.")
}

/// What of a model bounds a part of a call.
fn bounding(part: &str) -> &'static str {
    match part {
        "image_url" => "`image_tokens` or `context`",
        "input_audio" => "`audio` or `context`",
        "file" => "`file_tokens` or `context`",
        _other => "`context`",
    }
}

impl Denied {
    /// The words; `now` and `wall` say when to come back.
    pub(crate) fn told(self, now: Mono, wall: WallMs, api: Api) -> Rejection {
        match self {
            Self::Limit(limited) => over(&limited, now).rates(limited.allowance.headers(api, wall)),
            Self::Budget(refusal, short) => unpaid(&refusal, short.as_ref(), wall),
        }
    }
}

/// A limit that does not let a call pass, also one that was admitted and goes to another model.
pub(crate) fn over(limited: &Limited, now: Mono) -> Rejection {
    let whose = match limited.level {
        Level::Node => "this node takes",
        Level::Tenant => "your tenant may send",
        Level::App => "your application may send",
        Level::Key => "this API key may send",
        Level::Model => "this model takes here",
    };
    let code = |usual| match limited.level {
        Level::Node => Code::Overloaded,
        Level::Tenant | Level::App | Level::Key | Level::Model => usual,
    };
    if let Some(after) = limited.crowded {
        let words = format!("More calls at once than {whose}, and too many wait already.");
        return Rejection::new(Code::QueueFull, words).retry_after(after);
    }
    match limited.refused {
        Refused::Rate(_per, Mono::FAR) => {
            Rejection::new(code(Code::RateLimited), format!("No calls at all are what {whose}."))
        }
        Refused::Rate(per, when) => {
            let more = match per {
                Per::RequestsPerS => "calls a second",
                Per::RequestsPerMin => "calls a minute",
                Per::TokensPerMin => "tokens a minute",
                Per::TokensPerDay => "tokens a day",
            };
            Rejection::new(code(Code::RateLimited), format!("More {more} than {whose}."))
                .retry_after(when.since(now))
        }
        Refused::Concurrency => {
            Rejection::new(code(Code::ConcurrencyLimited), format!("More calls at once than {whose}."))
                .retry_after(SOON)
        }
        Refused::Streams => {
            Rejection::new(code(Code::ConcurrencyLimited), format!("More streams at once than {whose}."))
                .retry_after(SOON)
        }
    }
}

fn unpaid(refusal: &Refusal, short: Option<&(Arc<Budget>, Amount)>, wall: WallMs) -> Rejection {
    let name = short.map_or("of this call", |(budget, _most)| budget.name.as_str());
    match refusal {
        Refusal::Exceeded { limit, spent, .. } => {
            spent_up(exceeded(short, *limit, *spent, wall), short, wall)
        }
        Refusal::Reached { limit, spent, feature, .. } => {
            spent_up(reached(name, short, (*limit, *spent), *feature, wall), short, wall)
        }
        Refusal::Unavailable { .. } => Rejection::new(
            Code::BudgetUnavailable,
            format!(
                "This node has no more credit of the budget {name}, and could not get any from central in time. Nothing was spent; send the call again in a moment."
            ),
        )
        .retry_after(SOON),
        Refusal::Slow { .. } => Rejection::new(
            Code::BudgetUnavailable,
            format!(
                "This node's disk was too slow to put credit of the budget {name} to use. Nothing was spent; send the call again in a moment."
            ),
        )
        .retry_after(SOON),
        Refusal::StorageFull => Rejection::new(
            Code::StorageFull,
            "This node cannot write receipts at the moment and serves no call that a budget pays for. Send the call again; another node may take it.",
        )
        .retry_after(SOON),
    }
}

/// What comes free by itself soon is a rate, and clients may try again; the rest they must not.
fn spent_up(words: String, short: Option<&(Arc<Budget>, Amount)>, wall: WallMs) -> Rejection {
    match short.and_then(|(budget, most)| comes_free(budget, *most, wall)) {
        Some(after) => Rejection::new(Code::RateLimited, words).retry_after(after),
        None => Rejection::new(Code::BudgetExceeded, words),
    }
}

/// When a budget starts anew.
fn starts_anew(budget: &Budget, wall: WallMs) -> String {
    match (budget.window, budget.window_end(budget.window_at(wall))) {
        (_, Some(end)) => format!("It starts anew at {} UTC.", utc(end)),
        (Window::Rolling { .. }, None) => "It comes free again as time passes.".to_owned(),
        (_, None) => "It does not start anew.".to_owned(),
    }
}

/// A budget that refuses from some share of its limit on.
fn reached(
    name: &str,
    short: Option<&(Arc<Budget>, Amount)>,
    (limit, spent): (Amount, Amount),
    feature: Option<Feature>,
    wall: WallMs,
) -> String {
    let calls = match feature {
        None => "calls",
        Some(Feature::Tools) => "calls that demand a tool",
        Some(Feature::Images) => "calls with images",
        Some(Feature::Audio) => "calls with sound",
        Some(Feature::Choices) => "calls for several answers",
        Some(Feature::Reasoning) => "calls that reason",
    };
    let Some((budget, _most)) = short else { return format!("The budget {name} refuses {calls}.") };
    let reset = starts_anew(budget, wall);
    let (limit, spent) = (budget.unit.show(limit), budget.unit.show(spent));
    format!("So much of the budget {name} is spent that it refuses {calls}: {spent} of {limit}. {reset}")
}

/// How long a caller waits at most for `most` of a budget of a minute or of a span that moves; others are not waited for.
fn comes_free(budget: &Budget, most: Amount, wall: WallMs) -> Option<Duration> {
    match budget.window {
        Window::Minute => {
            let end = budget.window_end(budget.window_at(wall))?;
            Some(Duration::from_millis(end.as_millis().saturating_sub(wall.as_millis())))
        }
        Window::Rolling { seconds } if most <= budget.limit => {
            // Four fifths of the limit come free in each span.
            let share =
                u128::from(most.0) * 5 * u128::from(seconds) / (u128::from(budget.limit.0.max(1)) * 4);
            Some(Duration::from_secs(u64::try_from(share).unwrap_or(u64::MAX).clamp(1, u64::from(seconds))))
        }
        Window::Rolling { .. } | Window::Hour | Window::Day | Window::Month | Window::Total => None,
    }
}

/// Whether nothing is left, the call alone is too large for what is left, or others hold it: each has another mend.
fn exceeded(short: Option<&(Arc<Budget>, Amount)>, limit: Amount, spent: Amount, wall: WallMs) -> String {
    let Some((budget, most)) = short else { return "A budget of this call is exhausted.".to_owned() };
    let (name, left) = (&budget.name, limit.saturating_sub(spent));
    let show = |amount| budget.unit.show(amount);
    let reset = starts_anew(budget, wall);
    let span = match budget.window {
        Window::Minute => "a minute".to_owned(),
        Window::Hour => "an hour".to_owned(),
        Window::Day => "a day".to_owned(),
        Window::Month => "a month".to_owned(),
        Window::Total => "in total".to_owned(),
        Window::Rolling { seconds } => format!("in any {seconds} s"),
    };
    let (limit, spent) = (show(limit), show(spent));
    if left == Amount::ZERO {
        return format!("The budget {name} ({limit} {span}) is exhausted: {spent} are spent. {reset}");
    }
    let most_shown = show(*most);
    let mend = "a smaller `max_tokens` or a shorter prompt";
    let smaller = match budget.unit {
        Unit::Requests => String::new(),
        Unit::Tokens | Unit::InputTokens | Unit::OutputTokens | Unit::NanoUsd => format!(", or with {mend}"),
    };
    if left < *most {
        return format!(
            "This call may need up to {most_shown} of the budget {name} ({limit} {span}): {spent} are spent and {} are left. Send {mend}. {reset}",
            show(left)
        );
    }
    format!(
        "This call may need up to {most_shown} of the budget {name} ({limit} {span}): {spent} are spent, and calls in progress hold too much of the rest. Send it again when some have ended{smaller}. {reset}"
    )
}

/// A date and time as people read it, to the second.
fn utc(at: WallMs) -> String {
    let seconds = at.as_millis() / 1_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days to civil date: years begin in March, eras of 400 years have 146,097 days.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let (year, month) =
        if from_march < 10 { (year_of_era, from_march + 3) } else { (year_of_era + 1, from_march - 9) };
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}", year + era * 400)
}
