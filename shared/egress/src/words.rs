//! What callers are told of a failure. What an upstream said is shown only where the caller is at fault.

use std::borrow::Cow;

use base::{Blame, Code};
use upstream::Fault;

/// Words for a failure without a status.
pub(crate) const fn words(fault: Fault) -> &'static str {
    match fault {
        Fault::Connect => "the model's server could not be reached",
        Fault::Closed => "the model's server closed the connection before it answered",
        Fault::FirstByte => "the model's server did not begin to answer in time",
        Fault::Idle => "the model's server fell silent in the middle of its answer",
        Fault::Cut => "the model's server broke its answer off",
        Fault::Malformed => "the model's server answered something that is not its protocol",
        Fault::Empty => "the model's server answered with nothing",
        Fault::Deadline => "the call's time limit passed",
    }
}

/// Words for a failure that `code` names and of which the upstream `said` something.
pub(crate) fn explain(code: Code, said: String) -> Cow<'static, str> {
    match code {
        _caller if code.blame() == Blame::Caller && !said.is_empty() => said.into(),
        Code::UpstreamAuth => {
            "the model's server refused this mesh's credentials; an operator must renew them".into()
        }
        Code::UpstreamRateLimited => "the model's server limits our rate; try again later".into(),
        Code::ModelOverloaded => "the model's server is overloaded; try again shortly".into(),
        Code::ModelGpuOom => "the model's server ran out of accelerator memory; try again".into(),
        Code::UpstreamTimeout => "the model's server timed out".into(),
        Code::UpstreamInvalid => words(Fault::Malformed).into(),
        _other if code.blame() == Blame::Caller => "the model's server refused the call".into(),
        _other => "the model's server answered with an error".into(),
    }
}
