//! A whole answer as the events of a stream.

use super::{Answer, Choice, Delta, Event, Opening, Part};

/// The events that an answer would have come in. Parts that no stream carries, media and results of tools, are left out.
#[must_use]
pub fn spread(answer: &Answer) -> Vec<Event> {
    let start = Event::Start { id: answer.id.clone(), model: answer.model.clone(), created: answer.created };
    let mut events = vec![start];
    for (choice, said) in (0_u32..).zip(&answer.choices) {
        one(choice, said, &mut events);
    }
    events.extend(answer.usage.map(Event::Usage));
    events.push(Event::End);
    events
}

fn one(choice: u32, said: &Choice, events: &mut Vec<Event>) {
    for (part, (opening, deltas)) in (0_u32..).zip(said.parts.iter().filter_map(pieces)) {
        events.push(Event::Open { choice, part, opening });
        events.extend(deltas.into_iter().map(|delta| Event::Piece { choice, part, delta }));
        events.push(Event::Close { choice, part });
    }
    if let Some(logprobs) = said.logprobs.clone() {
        events.push(Event::Logprobs { choice, logprobs });
    }
    if let Some(stop) = said.stop.clone() {
        events.push(Event::Stop { choice, stop });
    }
}

fn pieces(part: &Part) -> Option<(Opening, Vec<Delta>)> {
    match part {
        Part::Text { text, .. } => Some((Opening::Text, vec![Delta::Text(text.clone())])),
        Part::Thought { text, signature } => {
            let signed = signature.clone().map(Delta::Signature);
            let text = Some(text).filter(|text| !text.is_empty()).cloned().map(Delta::Text);
            Some((Opening::Thought, text.into_iter().chain(signed).collect()))
        }
        Part::SealedThought { data } => Some((Opening::SealedThought(data.clone()), Vec::new())),
        Part::Refusal { text } => Some((Opening::Refusal, vec![Delta::Text(text.clone())])),
        Part::ToolCall(call) => {
            let opening = Opening::ToolCall {
                id: call.id.clone(),
                name: call.name.clone(),
                signature: call.signature.clone(),
            };
            Some((opening, vec![Delta::Arguments(call.arguments.clone())]))
        }
        Part::Media(_) | Part::ToolResult(_) => None,
    }
}
