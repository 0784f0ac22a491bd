//! The events of a stream as one whole answer.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Answer, Choice, Delta, Event, Opening, Part, ToolCall};

/// Events that are no stream: a fault of the reader that made them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutOfOrder {
    /// A piece or the close of a part that is not open.
    #[error("a piece of a part that is not open")]
    NotOpen,
    /// A part opened twice.
    #[error("a part that was opened before")]
    Reopened,
    /// A piece of another kind than its part.
    #[error("a piece of another kind than its part")]
    WrongKind,
    /// Something after the end.
    #[error("an event after the end")]
    Ended,
}

/// Puts a stream together.
#[derive(Debug, Default)]
pub struct Gather {
    answer: Answer,
    choices: BTreeMap<u32, Growing>,
    ended: bool,
}

#[derive(Debug, Default)]
struct Growing {
    parts: BTreeMap<u32, (Part, bool)>,
    choice: Choice,
}

impl Gather {
    /// Adds the next event.
    ///
    /// # Errors
    /// [`OutOfOrder`] when it does not fit those before it.
    pub fn add(&mut self, event: Event) -> Result<(), OutOfOrder> {
        if self.ended {
            return Err(OutOfOrder::Ended);
        }
        match event {
            Event::Start { id, model, created } => {
                self.answer.id = id;
                self.answer.model = model;
                self.answer.created = created;
            }
            Event::Open { choice, part, opening } => self.choice(choice).open(part, opening)?,
            Event::Piece { choice, part, delta } => self.choice(choice).grow(part, &delta)?,
            Event::Close { choice, part } => self.choice(choice).close(part)?,
            Event::Logprobs { choice, logprobs } => join(&mut self.choice(choice).choice.logprobs, logprobs),
            Event::Stop { choice, stop } => self.choice(choice).choice.stop = Some(stop),
            Event::Usage(usage) => self.answer.usage = Some(usage),
            Event::Ping => {}
            Event::End => self.ended = true,
        }
        Ok(())
    }

    /// Whether the stream came to its end.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.ended
    }

    /// What came so far. Choices that never began are left out.
    #[must_use]
    pub fn answer(self) -> Answer {
        let whole = |growing: Growing| {
            let parts = growing.parts.into_values().map(|(part, _open)| part).collect();
            Choice { parts, ..growing.choice }
        };
        Answer { choices: self.choices.into_values().map(whole).collect(), ..self.answer }
    }

    fn choice(&mut self, choice: u32) -> &mut Growing {
        self.choices.entry(choice).or_default()
    }
}

impl Growing {
    fn open(&mut self, number: u32, opening: Opening) -> Result<(), OutOfOrder> {
        if self.parts.contains_key(&number) {
            return Err(OutOfOrder::Reopened);
        }
        self.parts.insert(number, (begun(opening), true));
        Ok(())
    }

    fn grow(&mut self, number: u32, delta: &Delta) -> Result<(), OutOfOrder> {
        let Some((part, true)) = self.parts.get_mut(&number) else { return Err(OutOfOrder::NotOpen) };
        match (part, delta) {
            (
                Part::Text { text, .. } | Part::Thought { text, .. } | Part::Refusal { text },
                Delta::Text(more),
            ) => {
                text.push_str(more);
            }
            (Part::Thought { signature, .. }, Delta::Signature(more)) => {
                signature.get_or_insert_default().push_str(more);
            }
            (Part::ToolCall(call), Delta::Arguments(more)) => call.arguments.push_str(more),
            (
                Part::Text { .. }
                | Part::Thought { .. }
                | Part::Refusal { .. }
                | Part::ToolCall(_)
                | Part::Media(_)
                | Part::ToolResult(_)
                | Part::SealedThought { .. },
                Delta::Text(_) | Delta::Signature(_) | Delta::Arguments(_),
            ) => return Err(OutOfOrder::WrongKind),
        }
        Ok(())
    }

    fn close(&mut self, number: u32) -> Result<(), OutOfOrder> {
        let Some((part, open @ true)) = self.parts.get_mut(&number) else { return Err(OutOfOrder::NotOpen) };
        *open = false;
        if let Part::ToolCall(call) = part
            && call.arguments.trim().is_empty()
        {
            "{}".clone_into(&mut call.arguments);
        }
        Ok(())
    }
}

fn begun(opening: Opening) -> Part {
    match opening {
        Opening::Text => Part::text(""),
        Opening::Thought => Part::Thought { text: String::new(), signature: None },
        Opening::SealedThought(data) => Part::SealedThought { data },
        Opening::Refusal => Part::Refusal { text: String::new() },
        Opening::ToolCall { id, name, signature } => {
            Part::ToolCall(ToolCall { id, name, arguments: String::new(), signature, cache: false })
        }
    }
}

/// Adds later probabilities to earlier ones: the lists of `content` and `refusal` grow.
fn join(into: &mut Option<Value>, more: Value) {
    let Some(Value::Object(known)) = into else {
        *into = Some(more);
        return;
    };
    let Value::Object(more) = more else { return };
    for (name, value) in more {
        match (known.get_mut(&name), value) {
            (Some(Value::Array(list)), Value::Array(items)) => list.extend(items),
            (_absent, Value::Null) => {}
            (_other, value) => {
                known.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::canon::{Stop, Usage, spread};

    fn answer() -> Answer {
        let call = ToolCall {
            id: "c1".to_owned(),
            name: "get".to_owned(),
            arguments: "{\"q\":1}".to_owned(),
            signature: Some("s2".to_owned()),
            cache: false,
        };
        let parts = vec![
            Part::Thought { text: "hm".to_owned(), signature: Some("s1".to_owned()) },
            Part::SealedThought { data: "enc".to_owned() },
            Part::text("four"),
            Part::ToolCall(call),
        ];
        let logprobs = Some(json!({"content": [{"token": "four"}]}));
        let choice = Choice { parts, stop: Some(Stop::Tools), logprobs };
        let other = Choice { parts: vec![Part::text("5")], stop: Some(Stop::Length), logprobs: None };
        Answer {
            id: "a".to_owned(),
            model: "m".to_owned(),
            created: Some(7),
            choices: vec![choice, other],
            usage: Some(Usage { input: 3, output: 4, ..Usage::default() }),
            service_tier: None,
        }
    }

    #[test]
    fn an_answer_spread_and_gathered_is_the_same() {
        let mut gather = Gather::default();
        for event in spread(&answer()) {
            gather.add(event).unwrap();
        }
        assert!(gather.is_whole());
        assert_eq!(gather.answer(), answer());
    }

    #[test]
    fn parts_may_interleave_and_arguments_that_never_came_are_an_empty_object() {
        let call = |id: &str| Opening::ToolCall { id: id.to_owned(), name: "f".to_owned(), signature: None };
        let piece =
            |part, text: &str| Event::Piece { choice: 0, part, delta: Delta::Arguments(text.to_owned()) };
        let mut gather = Gather::default();
        for event in [
            Event::Open { choice: 0, part: 0, opening: call("a") },
            Event::Open { choice: 0, part: 1, opening: call("b") },
            piece(0, "{\"x\""),
            piece(0, ":1}"),
            Event::Close { choice: 0, part: 1 },
            Event::Close { choice: 0, part: 0 },
        ] {
            gather.add(event).unwrap();
        }
        let arguments = |part: &Part| match part {
            Part::ToolCall(call) => call.arguments.clone(),
            other => panic!("{other:?}"),
        };
        let gathered = gather.answer();
        let all: Vec<_> = gathered.choices[0].parts.iter().map(arguments).collect();
        assert_eq!(all, ["{\"x\":1}", "{}"]);
    }

    #[test]
    fn pieces_that_fit_nothing_are_told() {
        let open = || Event::Open { choice: 0, part: 0, opening: Opening::Text };
        let piece = |delta| Event::Piece { choice: 0, part: 0, delta };
        let mut gather = Gather::default();
        assert_eq!(gather.add(piece(Delta::Text("x".to_owned()))), Err(OutOfOrder::NotOpen));
        gather.add(open()).unwrap();
        assert_eq!(gather.add(open()), Err(OutOfOrder::Reopened));
        assert_eq!(gather.add(piece(Delta::Arguments("{".to_owned()))), Err(OutOfOrder::WrongKind));
        gather.add(Event::End).unwrap();
        assert_eq!(gather.add(Event::Ping), Err(OutOfOrder::Ended));
    }
}
