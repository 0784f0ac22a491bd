//! The spans of a node that serves calls: one of each call that another node sent, and one of each attempt at an upstream.
//! Each is handed over once, when its work ended or whoever wanted it left.

use std::mem;

use base::{Code, ModelName, Mono, Name};
use seam::Host;
use telemetry::trace::{Context, Side, Span, Tracer};
use wire::call::CallHead;

use crate::Egress;

/// Where an attempt at an upstream stands in its call's trace.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    context: Context,
    parent: u64,
    model: ModelName,
}

impl Trace {
    /// Where the attempts of a call stand that asks to be traced at a node that traces.
    pub(crate) fn of(tracer: &Tracer, call: &CallHead) -> Option<Self> {
        let context = tracer.follow(call.traceparent.as_deref())?;
        Some(Self { context, parent: context.span, model: call.model.clone() })
    }

    /// The `n`th attempt of the call.
    pub(crate) fn nth(&self, n: usize) -> Self {
        let n = u16::try_from(n).unwrap_or(u16::MAX);
        Self { context: self.context.nth(n), ..self.clone() }
    }

    /// What the upstream is sent.
    pub(crate) const fn context(&self) -> Context {
        self.context
    }

    /// The attempt is over.
    pub(crate) fn finish(
        &self,
        tracer: &Tracer,
        upstream: &Name,
        (begun, ended): (Mono, Mono),
        (status, error): (Option<u16>, Option<Code>),
    ) {
        let mut attributes = vec![
            ("portolan.upstream", upstream.to_string().into()),
            ("gen_ai.request.model", self.model.to_string().into()),
        ];
        attributes.extend(status.map(|status| ("http.response.status_code", i64::from(status).into())));
        tracer.finish(Span {
            context: self.context,
            parent: Some(self.parent),
            name: "upstream",
            side: Side::Client,
            begun,
            ended,
            attributes,
            error: error.map(Code::as_str),
        });
    }
}

/// A call of another node being served. Dropped before it [ended](Self::ended), its caller is gone.
pub(crate) struct Serving {
    tracer: Tracer,
    host: Host,
    span: Span,
}

impl Serving {
    /// Begins to serve `call`, which from now on asks for work below this node's span; `None` when it is not traced.
    pub(crate) fn begin(egress: &Egress, call: &mut CallHead) -> Option<Box<Self>> {
        let (tracer, host) = (&egress.shared.options.tracer, &egress.shared.host);
        let asked = tracer.follow(call.traceparent.as_deref())?;
        let context = asked.nth(0);
        call.traceparent = Some(context.to_string());
        let now = host.now();
        let span = Span {
            context,
            parent: Some(asked.span),
            name: "serve",
            side: Side::Server,
            begun: now,
            ended: now,
            attributes: vec![
                ("gen_ai.operation.name", call.operation.as_str().into()),
                ("gen_ai.request.model", call.model.to_string().into()),
                ("portolan.request_id", call.request.to_string().into()),
                ("portolan.attempt", i64::from(call.attempt).into()),
            ],
            error: Some(Code::CallerGone.as_str()),
        };
        Some(Box::new(Self { tracer: tracer.clone(), host: host.clone(), span }))
    }

    /// The call ended, and why when it did not end well.
    pub(crate) fn ended(&mut self, code: Option<Code>) {
        self.span.error = code.map(Code::as_str);
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let attributes = mem::take(&mut self.span.attributes);
        self.tracer.finish(Span { ended: self.host.now(), attributes, ..self.span.clone() });
    }
}
