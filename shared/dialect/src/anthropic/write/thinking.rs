//! How much to think, as one kind of model or the other takes it, and what cannot stand beside it.

use serde_json::{Value, json};

use super::{Out, Thinks};
use crate::canon::{Effort, Facet, Thinking, ToolChoice, Unfit};

/// The smallest budget that the API takes.
const LEAST: u64 = 1_024;

const FORCED: &str = "a model that must call a tool cannot think first";
const NO_ROOM: &str =
    "the answer is too short to think first: a budget has at least 1024 tokens and is below the cap";
const NO_BUDGET: &str = "the model thinks as much as it finds right";
const UNTHOUGHT: &str = "an earlier call of a tool came without signed thoughts, which the model would need";

impl Out<'_> {
    /// Puts how to think. `cap`: the most tokens of the answer, where there is one.
    pub(super) fn thinking(
        &mut self,
        thinking: Option<Thinking>,
        thinks: Thinks,
        cap: Option<u64>,
        choice: Option<&ToolChoice>,
    ) -> Result<(), Unfit> {
        let Some(thinking) = thinking else { return Ok(()) };
        let facet = facet(thinking);
        if !self.meet(facet)? {
            return Ok(());
        }
        if thinking == Thinking::Off {
            self.put("thinking", json!({"type": "disabled"}));
            return Ok(());
        }
        if self.fields.contains_key("tools") && matches!(choice, Some(ToolChoice::Any | ToolChoice::Named(_)))
        {
            self.lose(facet, FORCED);
            return Ok(());
        }
        match thinks {
            Thinks::ByEffort => self.by_effort(thinking),
            Thinks::ByBudget => self.by_budget(thinking, cap),
        }
        Ok(())
    }

    fn by_effort(&mut self, thinking: Thinking) {
        match thinking {
            Thinking::Off | Thinking::Adaptive => {}
            Thinking::Effort(effort) => {
                self.config.insert("effort".to_owned(), word(effort).into());
            }
            Thinking::Budget(_) => self.lose(Facet::ThinkingBudget, NO_BUDGET),
        }
        self.thinks = true;
        self.put("thinking", json!({"type": "adaptive"}));
    }

    /// The budget is raised to the least one and cut below the cap; below that, nothing is thought.
    fn by_budget(&mut self, thinking: Thinking, cap: Option<u64>) {
        let wanted = match thinking {
            Thinking::Off => return,
            Thinking::Adaptive => budget(Effort::High),
            Thinking::Effort(effort) => budget(effort),
            Thinking::Budget(tokens) => tokens,
        };
        let most = cap.map_or(u64::MAX, |cap| cap.saturating_sub(1));
        if most < LEAST {
            self.lose(facet(thinking), NO_ROOM);
        } else if self.goes_on_unthought() {
            self.lose(facet(thinking), UNTHOUGHT);
        } else {
            let tokens = wanted.max(LEAST).min(most);
            self.thinks = true;
            self.put("thinking", json!({"type": "enabled", "budget_tokens": tokens}));
        }
    }

    /// Whether results of tools are given that were called without a thought, which models that think by budget refuse.
    fn goes_on_unthought(&self) -> bool {
        let messages = self.fields.get("messages").and_then(Value::as_array);
        let Some([.., called, given]) = messages.map(Vec::as_slice) else { return false };
        let first_kind = |message: &Value| {
            let block = message.get("content")?.get(0)?;
            block.get("type")?.as_str().map(str::to_owned)
        };
        let thought =
            first_kind(called).is_some_and(|kind| kind == "thinking" || kind == "redacted_thinking");
        first_kind(given).as_deref() == Some("tool_result") && !thought
    }
}

const fn facet(thinking: Thinking) -> Facet {
    match thinking {
        Thinking::Off => Facet::ThinkingOff,
        Thinking::Adaptive => Facet::ThinkingAdaptive,
        Thinking::Effort(_) => Facet::ThinkingEffort,
        Thinking::Budget(_) => Facet::ThinkingBudget,
    }
}

const fn word(effort: Effort) -> &'static str {
    match effort {
        Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::Max => "max",
    }
}

/// Each about twice the one before, so that the hardest is what the API advises not to exceed without a stream.
const fn budget(effort: Effort) -> u64 {
    match effort {
        Effort::Minimal => LEAST,
        Effort::Low => 4_096,
        Effort::Medium => 8_192,
        Effort::High => 16_384,
        Effort::Max => 32_768,
    }
}
