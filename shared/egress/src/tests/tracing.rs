//! Each attempt at an upstream is one span below the call's, and its upstream is told that span.

use prometheus_client::metrics::counter::Counter;
use telemetry::trace::{Context, Side, Span, Tracer};
use tokio::sync::mpsc;

use super::*;

#[tokio::test(start_paused = true)]
async fn every_attempt_is_a_span_of_its_own_that_its_upstream_is_told() {
    let net = network::Memory::new();
    let bad = Fake::start(&net, |_request| vec![with_status("500 No", "", "{}")]).await;
    let good =
        Fake::start(&net, |_request| vec![sent(STREAM), chunk(TEXT), chunk(FINISH), sent(LAST_CHUNK)]).await;
    let (egress, mut spans) = traced(&net.host(), &[&bad, &good]);
    let reply = ask(&egress, true).await.unwrap();
    let failed = spans.try_recv().unwrap();
    assert!(spans.try_recv().is_err(), "an answer in progress is no finished span");
    read(reply).await;
    let answered = spans.try_recv().unwrap();
    assert!(spans.try_recv().is_err());

    let asked = call(true).traceparent.unwrap();
    for (span, fake, error) in [(&failed, &bad, Some("upstream_error")), (&answered, &good, None)] {
        assert_eq!((span.side, span.error), (Side::Client, error));
        assert_eq!(span.parent, Context::parse(&asked).map(|asked| asked.span));
        assert_eq!(told(&fake.requests().remove(0)), span.context.to_string());
    }
    assert_ne!(failed.context.span, answered.context.span);
    assert!(failed.ended <= answered.begun, "{failed:?} {answered:?}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_ends_the_span_once() {
    for steps in [vec![Step::Hang], vec![sent(STREAM), chunk(TEXT), Step::Hang]] {
        let net = network::Memory::new();
        let fake = Fake::start(&net, move |_request| steps.clone()).await;
        let (egress, mut spans) = traced(&net.host(), &[&fake]);
        let leaving = async {
            let mut reply = ask(&egress, true).await.unwrap();
            while reply.body.next().await.is_some() {}
        };
        net.host().timeout(Duration::from_millis(50), leaving).await.unwrap_err();
        let span = spans.try_recv().unwrap();
        assert_eq!(span.error, Some("caller_gone"));
        assert!(span.ended.since(span.begun) >= Duration::from_millis(40), "{span:?}");
        assert!(spans.try_recv().is_err());
    }
}

/// No span of ours may be named that nobody can find.
#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_trace_a_call_passes_on_what_it_got() {
    let net = network::Memory::new();
    let fake = Fake::start(&net, |_request| vec![ok(ANSWER)]).await;
    let asked = call(false).traceparent.unwrap();
    read(ask(&egress(&net.host(), &[&fake]), false).await.unwrap()).await;
    assert_eq!(told(&fake.requests().remove(0)), asked);

    let (egress, mut spans) = traced(&net.host(), &[&fake]);
    let unsampled = asked.replace("-01", "-00");
    let head = CallHead { traceparent: Some(unsampled.clone()), ..call(false) };
    let reply = egress.serve(head, Bytes::from_static(BODY.as_bytes()), None).await.unwrap();
    read(reply).await;
    assert_eq!(told(&fake.requests().remove(1)), unsampled);
    assert!(spans.try_recv().is_err());
}

fn traced(host: &Host, fakes: &[&Fake]) -> (Egress, mpsc::Receiver<Span>) {
    let (tracer, spans) = Tracer::queue(Counter::default());
    let egress = Egress::new(host, Options { tracer, ..options() });
    let names = ["a", "b"];
    egress.install(names.iter().zip(fakes).map(|(name, fake)| upstream(name, fake)).collect());
    (egress, spans)
}

/// The `traceparent` of a request.
fn told(request: &str) -> String {
    request.lines().find_map(|line| line.strip_prefix("traceparent: ")).unwrap().to_owned()
}
