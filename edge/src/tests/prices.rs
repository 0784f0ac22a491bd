//! A call is charged by the price in force when it came, each kind of token at its own rate.

use base::{NanoUsd, Price, PriceVersion, Rates, Tier, Tokens, WallMs};

use super::server::{Act, Server};
use super::world::World;

const STREAM: &str = r#"{"model":"tiny","messages":[{"role":"user","content":[{"type":"text","text":"hi"},
    {"type":"image_url","image_url":{"url":"https://x.example/1"}}]}],"stream":true}"#;
const TEXT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const COUNT: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":10,\"total_tokens\":110,\"prompt_tokens_details\":{\"cached_tokens\":60,\"audio_tokens\":7},\"completion_tokens_details\":{\"reasoning_tokens\":4}}}\n\n";
const LONG: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1001,\"completion_tokens\":10,\"total_tokens\":1011}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[tokio::test]
async fn kinds_tiers_and_pieces_are_charged_at_the_version_in_force() {
    let server = Server::start(&seam::Host::real(), Act::Events(&[TEXT, STOP, COUNT, DONE])).await;
    let world = World::start(&server.url, |_, catalog| {
        let tiny = catalog.models.get_mut("tiny").unwrap();
        tiny.price = Some(price());
    })
    .await;
    assert_eq!(world.caller().chat(STREAM).await.status, 200);
    server.does(Act::Events(&[TEXT, STOP, LONG, DONE]));
    assert_eq!(world.caller().chat(STREAM).await.status, 200);
    let records = world.records(2).await;
    let usage = &records[0]["usage"];
    assert_eq!(
        (&usage["cached_input"], &usage["reasoning"], &usage["images"]),
        (&60.into(), &4.into(), &1.into())
    );
    assert_eq!(records[0]["cost"], 60 + 7 * 100 + 33 * 10 + 4 * 30 + 6 * 20 + 1_000);
    assert_eq!(records[1]["cost"], 1_001 * 15 + 10 * 20 + 1_000, "the whole call at the tier's rates");
}

#[tokio::test]
async fn time_is_charged_by_the_millisecond_and_no_longer_than_the_call_may_take() {
    let server = Server::start(&seam::Host::real(), Act::Complete).await;
    let world = World::start(&server.url, |_, catalog| {
        let tiny = catalog.models.get_mut("tiny").unwrap();
        tiny.price = Some(Price::flat(Rates { second: NanoUsd(1_000), ..Rates::default() }));
    })
    .await;
    assert_eq!(world.caller().chat(STREAM.replace("true", "false")).await.status, 200);
    let record = world.records(1).await.pop().unwrap();
    let (cost, busy) = (record["cost"].as_u64().unwrap(), record["usage"]["busy_ms"].as_u64().unwrap());
    assert!(cost == busy && busy > 0 && busy <= 600_000, "{record}");
}

/// A million tokens cost millions here, so that each token's share is whole. What begins tomorrow is of no account.
fn price() -> Price {
    let each = |nano: u64| NanoUsd(nano * 1_000_000);
    let rates = Rates {
        input: each(10),
        cached_input: Some(each(1)),
        audio_input: Some(each(100)),
        output: each(20),
        reasoning: Some(each(30)),
        image: NanoUsd(1_000),
        ..Rates::default()
    };
    let tier = Tier { above: Tokens(1_000), rates: Rates { input: each(15), ..rates } };
    let now = PriceVersion { from: WallMs::from_millis(1), rates, tiers: vec![tier] };
    let later = PriceVersion { from: WallMs::from_millis(u64::MAX), ..PriceVersion::default() };
    Price { versions: vec![now, later] }
}
