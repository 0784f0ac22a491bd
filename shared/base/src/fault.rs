//! What an error means: whose fault it is, whether another try elsewhere may help, and the code callers see.
//!
//! Codes are stable: once released, a code keeps its name and its HTTP status.

use serde::{Deserialize, Serialize};

/// Whose fault an error is; it decides who is told and who is not penalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    /// The caller must change the call.
    Caller,
    /// An operator must change configuration, limits or budgets.
    Operator,
    /// A model server or provider failed.
    Upstream,
    /// A link or another node of the mesh failed.
    Mesh,
    /// This node failed.
    Node,
}

/// Whether the same call may succeed at another target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Elsewhere {
    /// Try the next target.
    Yes,
    /// Every target would answer the same.
    No,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $status:literal, $blame:ident, $elsewhere:ident;)*) => {
        /// The stable error codes of the public API (REQ NB-9).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code, for documentation and metrics.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code as callers see it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The HTTP status it comes with.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }

            /// Whose fault it is.
            #[must_use]
            pub const fn blame(self) -> Blame {
                match self { $(Self::$variant => Blame::$blame,)* }
            }

            /// Whether another target may do better.
            #[must_use]
            pub const fn elsewhere(self) -> Elsewhere {
                match self { $(Self::$variant => Elsewhere::$elsewhere,)* }
            }
        }
    };
}

codes! {
    /// The body or a header is malformed.
    InvalidRequest = "invalid_request", 400, Caller, No;
    /// The content type is not one the operation takes.
    UnsupportedMediaType = "unsupported_media_type", 415, Caller, No;
    /// The body exceeds the limit.
    BodyTooLarge = "body_too_large", 413, Caller, No;
    /// The headers exceed the limit.
    HeadersTooLarge = "headers_too_large", 431, Caller, No;
    /// The caller sent its request too slowly.
    RequestTimeout = "request_timeout", 408, Caller, No;
    /// No such path.
    NotFound = "not_found", 404, Caller, No;
    /// The path exists, the method does not.
    MethodNotAllowed = "method_not_allowed", 405, Caller, No;
    /// No API key was sent.
    MissingKey = "missing_api_key", 401, Caller, No;
    /// The API key is unknown, malformed, expired or revoked.
    InvalidKey = "invalid_api_key", 401, Caller, No;
    /// The key may not use this model or feature.
    Forbidden = "forbidden", 403, Caller, No;
    /// No model, alias, route or group of that name.
    ModelNotFound = "model_not_found", 404, Caller, No;
    /// The model cannot do what was asked.
    Unsupported = "unsupported", 400, Caller, No;
    /// Input and output do not fit the model's context.
    ContextTooLong = "context_too_long", 400, Caller, No;
    /// The provider's filter refused.
    ContentFiltered = "content_filtered", 400, Caller, No;
    /// A strict budget is exhausted until its reset, or what is left of it is less than this call may need at most; the
    /// message says which. In a stream: the budget holds no more for what the model writes.
    BudgetExceeded = "budget_exceeded", 402, Operator, No;
    /// A strict budget could not be asked; nothing was spent.
    BudgetUnavailable = "budget_unavailable", 503, Mesh, No;
    /// A strict budget applies and the call's cost has no upper bound.
    UnboundedCost = "unbounded_cost", 400, Operator, No;
    /// A rate limit; comes with Retry-After.
    RateLimited = "rate_limited", 429, Caller, No;
    /// Too many calls or streams at once; comes with Retry-After.
    ConcurrencyLimited = "concurrency_limited", 429, Caller, No;
    /// This node protects itself.
    Overloaded = "overloaded", 503, Node, No;
    /// Every target of the model is busy.
    ModelOverloaded = "model_overloaded", 503, Upstream, Yes;
    /// The upstream limits our rate.
    UpstreamRateLimited = "upstream_rate_limited", 429, Upstream, Yes;
    /// The model server ran out of accelerator memory.
    ModelGpuOom = "model_gpu_oom", 503, Upstream, Yes;
    /// No live target is left for the model.
    NoTarget = "no_target_available", 503, Upstream, Yes;
    /// The upstream could not be reached.
    UpstreamUnreachable = "upstream_unreachable", 502, Upstream, Yes;
    /// The upstream answered something that is not its protocol.
    UpstreamInvalid = "upstream_invalid_response", 502, Upstream, Yes;
    /// The upstream answered with an error of its own.
    UpstreamError = "upstream_error", 502, Upstream, Yes;
    /// The upstream refused our credentials.
    UpstreamAuth = "upstream_auth", 502, Operator, Yes;
    /// The upstream took too long for its first byte, between chunks, or in all.
    UpstreamTimeout = "upstream_timeout", 504, Upstream, Yes;
    /// The upstream broke off after its first byte.
    UpstreamCut = "upstream_cut", 502, Upstream, No;
    /// A peer region or central could not be reached.
    MeshUnreachable = "mesh_unreachable", 502, Mesh, Yes;
    /// The caller left before the answer ended.
    CallerGone = "caller_gone", 499, Caller, No;
    /// The call's own deadline passed.
    DeadlineExceeded = "deadline_exceeded", 504, Caller, No;
    /// The node is leaving and takes no new calls.
    Draining = "draining", 503, Node, Yes;
    /// The node's configuration is older than the tenant allows.
    ConfigStale = "config_stale", 503, Mesh, No;
    /// The node's disk refuses writes; strict calls are not served.
    StorageFull = "storage_unavailable", 503, Node, No;
    /// A fault of ours.
    Internal = "internal_error", 500, Node, No;
    /// So many calls wait already that this one may not; comes with Retry-After.
    QueueFull = "queue_full", 429, Upstream, No;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_have_error_statuses() {
        let mut texts: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), Code::ALL.len());
        assert!(Code::ALL.iter().all(|code| (400..600).contains(&code.status())));
    }

    #[test]
    fn exhausted_money_is_not_retried_by_clients() {
        assert_eq!(Code::BudgetExceeded.status(), 402);
    }
}
