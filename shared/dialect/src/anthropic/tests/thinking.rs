use super::*;
use crate::canon::{Effort, Sampling, Thinking, Tool, ToolCall, ToolChoice, ToolResult};

const BY_BUDGET: Target = Target { max_tokens: Some(64_000), thinks: Thinks::ByBudget };

fn with(thinking: Thinking, max_tokens: u64) -> Call {
    Call { thinking: Some(thinking), max_tokens: Some(max_tokens), ..asking() }
}

/// Case B051.
#[test]
fn a_budget_is_below_the_cap_and_not_below_the_least() {
    let budget = |thinking, cap| {
        let (body, told) = sent_to(&with(thinking, cap), BY_BUDGET).unwrap();
        (body["thinking"]["budget_tokens"].as_u64(), told.len())
    };
    assert_eq!(budget(Thinking::Effort(Effort::High), 2_000), (Some(1_999), 0));
    assert_eq!(budget(Thinking::Effort(Effort::High), 40_000), (Some(16_384), 0));
    assert_eq!(budget(Thinking::Budget(10), 40_000), (Some(1_024), 0));
    assert_eq!(budget(Thinking::Effort(Effort::High), 800), (None, 1), "no budget fits, and that is told");
    assert_eq!(budget(Thinking::Effort(Effort::High), 1_024), (None, 1));
    assert_eq!(budget(Thinking::Effort(Effort::High), 1_025), (Some(1_024), 0));
}

/// Case B051: what cannot stand beside thinking.
#[test]
fn a_forced_tool_goes_before_thinking_and_thinking_before_a_temperature() {
    let warm = Sampling { temperature: serde_json::Number::from_f64(0.2), ..Sampling::default() };
    let thinking = Call { sampling: warm, ..with(Thinking::Effort(Effort::High), 9_000) };
    let (body, told) = sent(&thinking).unwrap();
    assert_eq!(
        (&body["thinking"], &body["output_config"]),
        (&json!({"type": "adaptive"}), &json!({"effort": "high"}))
    );
    assert_eq!(body.get("temperature"), None);
    assert!(told[0].starts_with("temperature ("), "{told:?}");
    let tool = Tool { name: "f".to_owned(), description: None, schema: None, strict: None, cache: false };
    let forced = Call { tools: vec![tool], tool_choice: Some(ToolChoice::Any), ..thinking };
    let (body, told) = sent(&forced).unwrap();
    assert_eq!((body.get("thinking"), &body["temperature"]), (None, &json!(0.2)));
    assert_eq!(body["tool_choice"], json!({"type": "any"}));
    assert!(told[0].starts_with("reasoning_effort ("), "{told:?}");
}

#[test]
fn a_model_takes_one_kind_of_thinking_and_the_other_is_told() {
    let (body, told) = sent(&with(Thinking::Budget(5_000), 9_000)).unwrap();
    assert_eq!((&body["thinking"], told.len()), (&json!({"type": "adaptive"}), 1));
    let (body, told) = sent_to(&with(Thinking::Off, 9_000), BY_BUDGET).unwrap();
    assert_eq!((&body["thinking"], told.len()), (&json!({"type": "disabled"}), 0));
}

fn after_a_call(thought: Option<Part>) -> Call {
    let called = Part::ToolCall(ToolCall {
        id: "t".to_owned(),
        name: "f".to_owned(),
        arguments: "{}".to_owned(),
        signature: None,
        cache: false,
    });
    let given = Part::ToolResult(ToolResult {
        id: "t".to_owned(),
        name: "f".to_owned(),
        parts: vec![Part::text("7")],
        failed: None,
        cache: false,
    });
    let turns = vec![
        turn(Role::User, vec![Part::text("hi")]),
        turn(Role::Assistant, thought.into_iter().chain([called]).collect()),
        turn(Role::User, vec![given]),
    ];
    Call { turns, ..with(Thinking::Effort(Effort::Low), 9_000) }
}

/// Cases B047 and B049, the second turn.
#[test]
fn signed_and_sealed_thoughts_go_back_unchanged_before_the_call() {
    let signed = Part::Thought { text: "hm".to_owned(), signature: Some("S1".to_owned()) };
    let sealed = Part::SealedThought { data: "ENC==".to_owned() };
    let blocks = [
        (signed, json!({"type": "thinking", "thinking": "hm", "signature": "S1"})),
        (sealed, json!({"type": "redacted_thinking", "data": "ENC=="})),
    ];
    for (thought, block) in blocks {
        for target in [BY_BUDGET, Target::default()] {
            let (body, told) = sent_to(&after_a_call(Some(thought.clone())), target).unwrap();
            assert_eq!(body["messages"][1]["content"][0], block);
            assert_eq!(body["messages"][1]["content"][1]["type"], "tool_use");
            assert!(body.get("thinking").is_some() && told.is_empty(), "{told:?}");
        }
    }
}

#[test]
fn unsigned_thoughts_are_not_given_to_a_provider_that_would_refuse_them() {
    let unsigned = Part::Thought { text: "hm".to_owned(), signature: None };
    let (body, told) = sent_to(&after_a_call(Some(unsigned)), BY_BUDGET).unwrap();
    assert_eq!(body["messages"][1]["content"].as_array().unwrap().len(), 1);
    assert_eq!((body.get("thinking"), told.len()), (None, 2), "nor is more thinking asked for: {told:?}");
    let (body, _told) = sent(&after_a_call(None)).unwrap();
    assert!(body.get("thinking").is_some(), "models that think by effort do not ask for earlier thoughts");
}

#[test]
fn how_to_think_is_read_from_both_fields() {
    let read = |thinking: Value, config: Value| {
        let body = json!({"model": "m", "max_tokens": 5, "thinking": thinking, "output_config": config,
            "messages": [{"role": "user", "content": "x"}]});
        let mut losses = Losses::of(field);
        let call = read_call(body.to_string().as_bytes(), &mut losses).unwrap();
        (call.thinking, losses.told().len())
    };
    let adaptive = || json!({"type": "adaptive", "display": "summarized"});
    let none = || Value::Null;
    assert_eq!(read(none(), none()), (None, 0));
    assert_eq!(read(adaptive(), none()), (Some(Thinking::Adaptive), 0));
    assert_eq!(read(adaptive(), json!({"effort": "low"})), (Some(Thinking::Effort(Effort::Low)), 0));
    assert_eq!(read(none(), json!({"effort": "xhigh"})), (Some(Thinking::Effort(Effort::Max)), 1));
    let enabled = json!({"type": "enabled", "budget_tokens": 2_000, "display": "omitted"});
    assert_eq!(read(enabled, json!({"effort": "low"})), (Some(Thinking::Budget(2_000)), 2));
    assert_eq!(read(json!({"type": "disabled"}), none()), (Some(Thinking::Off), 0));
}
