//! A stream that would cost more than its strict budgets hold is ended, and settled at what was written.

use std::time::Duration;

use base::{Amount, Code, Unit};
use seam::Bound;
use tokens::Tokenizer;
use wire::catalog::{Budget, Dialect, Window};
use wire::ledger::{Outcome, Receipt};

use super::caller::Over;
use super::server::{Act, Server};
use super::world::World;
use crate::fixtures;

const STREAM: &str = r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true}"#;

/// What a model writes that was asked for 64 tokens: 640, and no end.
const TOO_MUCH: &[&str] = &[LINE; 80];
/// What one that keeps to it does.
const ENOUGH: &[&str] = &[LINE; 8];
/// Eight tokens.
const LINE: &str = " the pilot walked down to the pier";

#[tokio::test]
async fn a_model_that_ignores_its_cap_is_cancelled_and_the_rest_is_not_paid() {
    for tokenizer in [Some("o200k_base"), None] {
        let server = Server::start(&seam::Host::real(), Act::Hang(TOO_MUCH)).await;
        let (world, _central) = world(&server, Unit::OutputTokens, tokenizer).await;
        let caller = world.caller();
        for over in [Over::Plain1, Over::Secure2, Over::Secure3] {
            let answer = caller.over(over, caller.post("/v1/chat/completions", STREAM)).await.text();
            let (last, written) =
                (answer.trim_end().rsplit("\n\n").next().unwrap(), answer.matches(LINE).count());
            assert!(last.contains("budget_exceeded") && last.contains("acme-day"), "{last}");
            assert!(
                !answer.contains("finish_reason\":\"") && !answer.contains("[DONE]"),
                "no finish is invented"
            );
            assert!((9..40).contains(&written), "{written} lines of eight tokens for a cap of 64");
            server.open(0).await;
            world.quiet().await;
        }
        let receipts = world.receipts(3).await;
        assert_eq!(receipts.len(), 3);
        for Receipt { outcome, code, estimated, usage, charges, .. } in receipts {
            assert_eq!((outcome, code, estimated), (Outcome::Cut, Some(Code::BudgetExceeded), true));
            assert_eq!(charges[0].amount, Amount(64), "what was held");
            assert_eq!(charges[0].overrun, Amount(usage.output.0 - 64), "what was written beyond is told");
        }
        let record = world.records(3).await.pop().unwrap();
        assert_eq!((&record["outcome"], &record["budget"]), (&"cut".into(), &"acme-day".into()));
    }
}

/// The same of models that speak other APIs: what they write is counted, and their caller is told in the caller's own.
#[tokio::test]
async fn a_model_of_another_api_is_cancelled_too() {
    let claude = |text: &str| {
        format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
        )
    };
    let gemini = |text: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"role\":\"model\",\"parts\":[{{\"text\":\"{text}\"}}]}},\"index\":0}}]}}\n\n"
        )
    };
    let begin = [
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"content\":[]}}\n\n",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    ];
    let begin = begin.map(str::to_owned).to_vec();
    for (dialect, begin, line) in
        [(Dialect::Anthropic, begin, claude(LINE)), (Dialect::Gemini, Vec::new(), gemini(LINE))]
    {
        let events: Vec<&'static str> =
            begin.into_iter().chain(vec![line; 80]).map(|event| &*event.leak()).collect();
        let server = Server::start(&seam::Host::real(), Act::Events(events.leak())).await;
        let of = (Unit::OutputTokens, Some("o200k_base"), dialect);
        let (world, _central) = world_of(&server, of).await;
        let answer = world.caller().chat(STREAM).await.text();
        let (last, written) =
            (answer.trim_end().rsplit("\n\n").next().unwrap(), answer.matches(LINE).count());
        assert!(last.starts_with("data: {\"error\"") && last.contains("budget_exceeded"), "{last}");
        assert!(answer.starts_with("data: {") && answer.contains("chat.completion.chunk"), "{answer}");
        assert!((9..40).contains(&written), "{written} lines of eight tokens for a cap of 64");
        world.quiet().await;
        let receipt = world.receipts(1).await.remove(0);
        assert_eq!((receipt.outcome, receipt.code), (Outcome::Cut, Some(Code::BudgetExceeded)));
        assert_eq!(receipt.charges[0].amount, Amount(64), "what was held");
    }
}

#[tokio::test]
async fn a_model_that_keeps_to_its_cap_is_never_ended() {
    for unit in [Unit::OutputTokens, Unit::Tokens] {
        for tokenizer in [Some("o200k_base"), Some("cl100k_base"), None] {
            let server = Server::start(&seam::Host::real(), Act::Words(ENOUGH)).await;
            let (world, _central) = world(&server, unit, tokenizer).await;
            let answer = world.caller().chat(STREAM).await.text();
            assert!(answer.ends_with("data: [DONE]\n\n") && !answer.contains("error"), "{answer}");
            world.quiet().await;
            assert_eq!(world.receipts(1).await[0].outcome, Outcome::Complete);
        }
    }
}

#[tokio::test]
async fn without_a_strict_budget_a_stream_runs_as_long_as_its_model_writes() {
    let server = Server::start(&seam::Host::real(), Act::Words(TOO_MUCH)).await;
    let world = World::start(&server.url, |_, _| {}).await;
    let answer = world.caller().chat(STREAM).await.text();
    assert_eq!((answer.matches(LINE).count(), answer.ends_with("data: [DONE]\n\n")), (80, true));
}

/// A node with credit of a strict budget in `unit`, and whose model is asked for 64 tokens.
async fn world(server: &Server, unit: Unit, tokenizer: Option<&str>) -> (World, Bound<()>) {
    world_of(server, (unit, tokenizer, Dialect::Openai)).await
}

async fn world_of(
    server: &Server,
    (unit, tokenizer, dialect): (Unit, Option<&str>, Dialect),
) -> (World, Bound<()>) {
    let limit = Amount(1_000_000);
    let budget = Budget { window: Window::Total, limit, ..fixtures::budget("acme-day", unit) };
    let world = World::start(&server.url, |_, catalog| {
        catalog.budgets.insert(budget.name.clone(), budget.clone());
        let model = catalog.models.get_mut("tiny").unwrap();
        (model.tokenizer, model.dialect) = (tokenizer.map(ToOwned::to_owned), dialect);
    })
    .await;
    let central = world.fund(&budget);
    for tokenizer in &Tokenizer::BUILT_IN {
        world.edge.counting.build(&world.host, tokenizer);
        while !world.edge.counting.is_built(tokenizer) {
            world.host.sleep(Duration::from_millis(5)).await;
        }
    }
    (world, central)
}
