//! One choice of a stream: which of its parts are open.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::canon::{Delta, Event, Members, Opening, Part, Unfit};
use crate::openai::chat::answer::made_id;
use crate::openai::chat::{finish, said};

/// Most calls of tools in one choice.
const MOST_CALLS: usize = 512;

/// A choice that is coming.
#[derive(Debug, Default)]
pub(super) struct Growing {
    /// How many parts began.
    parts: u32,
    /// The text that is open.
    text: Option<(Kind, u32)>,
    /// Calls of tools, by their index in chunks.
    calls: BTreeMap<u64, Called>,
    /// How many calls began.
    called: usize,
    over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Thought,
    Refusal,
}

/// A call of a tool.
#[derive(Debug, Default)]
struct Called {
    id: String,
    name: String,
    signature: Option<String>,
    /// Its part, once it has a name.
    part: Option<u32>,
    /// What its arguments are so far.
    arguments: String,
    closed: bool,
}

impl Growing {
    pub(super) const fn is_over(&self) -> bool {
        self.over
    }

    /// Adds what a chunk says of it.
    pub(super) fn add(
        &mut self,
        choice: u32,
        item: &mut Members,
        events: &mut Vec<Event>,
    ) -> Result<(), Unfit> {
        let delta = match item.object("delta")? {
            Some(delta) => Some(delta),
            None => item.object("message")?,
        };
        if let Some(mut delta) = delta {
            self.delta(choice, &mut delta, events)?;
        }
        if let Some(logprobs) = item.take("logprobs") {
            events.push(Event::Logprobs { choice, logprobs });
        }
        match item.text("finish_reason")? {
            Some(reason) if !reason.is_empty() && !self.over => {
                self.end(choice, events)?;
                events.push(Event::Stop { choice, stop: finish::read(&reason, self.called > 0) });
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    /// Closes all that is open.
    pub(super) fn end(&mut self, choice: u32, events: &mut Vec<Event>) -> Result<(), Unfit> {
        self.close_text(choice, events);
        let unnamed = self.calls.values().any(|call| call.part.is_none());
        for call in self.calls.values_mut() {
            call.close(choice, events);
        }
        self.over = true;
        if unnamed { Err(Unfit::new("tool_calls", "has no name")) } else { Ok(()) }
    }

    fn delta(&mut self, choice: u32, delta: &mut Members, events: &mut Vec<Event>) -> Result<(), Unfit> {
        self.thoughts(choice, delta, events)?;
        for (name, kind) in [("content", Kind::Text), ("refusal", Kind::Refusal)] {
            let text = match delta.take(name) {
                Some(Value::String(text)) => text,
                Some(Value::Array(items)) => {
                    items.iter().filter_map(|item| item.get("text")?.as_str()).collect()
                }
                Some(_) | None => continue,
            };
            self.say(choice, kind, text, events);
        }
        for (index, (path, item)) in (0_u64..).zip(delta.items("tool_calls")?) {
            self.tool(choice, index, &mut Members::of(path, item)?, events)?;
        }
        Ok(())
    }

    fn thoughts(&mut self, choice: u32, delta: &mut Members, events: &mut Vec<Event>) -> Result<(), Unfit> {
        for thought in said::thoughts(delta)? {
            match thought {
                Part::Thought { text, signature } => {
                    self.say(choice, Kind::Thought, text, events);
                    if let Some(signature) = signature {
                        let part = self.open(choice, Kind::Thought, events);
                        events.push(Event::Piece { choice, part, delta: Delta::Signature(signature) });
                    }
                }
                Part::SealedThought { data } => {
                    self.close_text(choice, events);
                    let part = self.next_part();
                    events.push(Event::Open { choice, part, opening: Opening::SealedThought(data) });
                    events.push(Event::Close { choice, part });
                }
                Part::Text { .. }
                | Part::Media(_)
                | Part::ToolCall(_)
                | Part::ToolResult(_)
                | Part::Refusal { .. } => {}
            }
        }
        Ok(())
    }

    fn say(&mut self, choice: u32, kind: Kind, text: String, events: &mut Vec<Event>) {
        if text.is_empty() || self.over {
            return;
        }
        let part = self.open(choice, kind, events);
        events.push(Event::Piece { choice, part, delta: Delta::Text(text) });
    }

    /// The open text of this kind, opened where there is none.
    fn open(&mut self, choice: u32, kind: Kind, events: &mut Vec<Event>) -> u32 {
        if let Some((open, part)) = self.text
            && open == kind
        {
            return part;
        }
        self.close_text(choice, events);
        self.close_whole_calls(choice, events);
        let part = self.next_part();
        let opening = match kind {
            Kind::Text => Opening::Text,
            Kind::Thought => Opening::Thought,
            Kind::Refusal => Opening::Refusal,
        };
        events.push(Event::Open { choice, part, opening });
        self.text = Some((kind, part));
        part
    }

    fn close_text(&mut self, choice: u32, events: &mut Vec<Event>) {
        if let Some((_kind, part)) = self.text.take() {
            events.push(Event::Close { choice, part });
        }
    }

    /// Of calls that wait, those whose arguments are whole are done once something else begins.
    fn close_whole_calls(&mut self, choice: u32, events: &mut Vec<Event>) {
        for call in self.calls.values_mut() {
            if serde_json::from_str::<IgnoredAny>(&call.arguments).is_ok() {
                call.close(choice, events);
            }
        }
    }

    fn next_part(&mut self) -> u32 {
        let part = self.parts;
        self.parts = self.parts.saturating_add(1);
        part
    }

    /// A piece of a call. `place`: where it stands in its chunk, for servers that give no index.
    fn tool(
        &mut self,
        choice: u32,
        place: u64,
        item: &mut Members,
        events: &mut Vec<Event>,
    ) -> Result<(), Unfit> {
        if self.over {
            return Ok(());
        }
        let id = item.text("id")?.unwrap_or_default();
        let mut function = match item.object("function")? {
            Some(function) => function,
            None => Members::of("", Value::Object(Map::new()))?,
        };
        let name = function.text("name")?.unwrap_or_default();
        let index = self.index_of(item.count("index")?, place, (&id, &name));
        let arguments = match function.take("arguments") {
            Some(Value::String(text)) => text,
            Some(object @ Value::Object(_)) => object.to_string(),
            Some(_) | None => String::new(),
        };
        if !self.calls.contains_key(&index) {
            self.begin(choice, index, events)?;
        }
        let made = made_id(self.called.saturating_sub(1));
        let next = self.parts;
        let Some(call) = self.calls.get_mut(&index) else { return Ok(()) };
        call.learn(id, name, said::take_signature(item));
        if call.part.is_none() && !call.name.is_empty() {
            call.open(choice, next, made, events);
            self.next_part();
        }
        self.calls.get_mut(&index).map_or(Ok(()), |call| call.grow(choice, arguments, events))
    }

    /// The index of the call that a piece belongs to. Another id under a known index is another call, as some servers number
    /// all their calls 0; and without an index so is a name after a call has one.
    fn index_of(&self, given: Option<u64>, place: u64, (id, name): (&str, &str)) -> u64 {
        let free = self.calls.last_key_value().map_or(0, |(last, _call)| last.saturating_add(1));
        let index = given.unwrap_or_else(|| match self.calls.last_key_value() {
            Some((last, call)) if call.goes_on(id, name) => *last,
            Some(_) | None => free.max(place),
        });
        let same = |call: &Called| id.is_empty() || call.id.is_empty() || call.id == id;
        match self.calls.get(&index) {
            Some(call) if !same(call) => {
                let known = self.calls.iter().find(|(_index, call)| call.id == id);
                known.map_or(free, |(index, _call)| *index)
            }
            Some(_) | None => index,
        }
    }

    fn begin(&mut self, choice: u32, index: u64, events: &mut Vec<Event>) -> Result<(), Unfit> {
        if self.called >= MOST_CALLS {
            return Err(Unfit::new("tool_calls", "are beyond all bounds"));
        }
        self.close_text(choice, events);
        self.close_whole_calls(choice, events);
        self.called = self.called.saturating_add(1);
        self.calls.insert(index, Called::default());
        Ok(())
    }
}

impl Called {
    /// Whether a piece that tells these belongs to the call.
    fn goes_on(&self, id: &str, name: &str) -> bool {
        let same_id = id == self.id || id.is_empty();
        same_id && (name.is_empty() || self.name.is_empty() || (!id.is_empty() && id == self.id))
    }

    /// Takes what the first pieces say; later ones may repeat it.
    fn learn(&mut self, id: String, name: String, signature: Option<String>) {
        if self.part.is_some() {
            return;
        }
        if !id.is_empty() {
            self.id = id;
        }
        if !name.is_empty() {
            self.name = name;
        }
        self.signature = self.signature.take().or(signature);
    }

    fn open(&mut self, choice: u32, part: u32, made: String, events: &mut Vec<Event>) {
        if self.id.is_empty() {
            self.id = made;
        }
        let opening = Opening::ToolCall {
            id: self.id.clone(),
            name: self.name.clone(),
            signature: self.signature.clone(),
        };
        self.part = Some(part);
        events.push(Event::Open { choice, part, opening });
        self.piece(choice, part, self.arguments.clone(), events);
    }

    fn grow(&mut self, choice: u32, more: String, events: &mut Vec<Event>) -> Result<(), Unfit> {
        if more.is_empty() {
            return Ok(());
        }
        if self.closed {
            return Err(Unfit::new("tool_calls", "go on after their end"));
        }
        self.arguments.push_str(&more);
        if let Some(part) = self.part {
            self.piece(choice, part, more, events);
        }
        Ok(())
    }

    fn piece(&self, choice: u32, part: u32, text: String, events: &mut Vec<Event>) {
        if !text.is_empty() {
            events.push(Event::Piece { choice, part, delta: Delta::Arguments(text) });
        }
    }

    fn close(&mut self, choice: u32, events: &mut Vec<Event>) {
        if let (Some(part), false) = (self.part, self.closed) {
            self.closed = true;
            events.push(Event::Close { choice, part });
        }
    }
}
