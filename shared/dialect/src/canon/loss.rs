//! What a conversion cannot carry over: refused by name, or dropped and said so.

use std::fmt;

/// Most losses of one call that are told one by one.
const TOLD: usize = 16;

/// What a call can say and not every dialect can. The order is that of the printed tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Facet {
    /// Instructions in the middle of the conversation.
    SystemMidway,
    /// The name of a speaker.
    SpeakerName,
    /// A last turn of the assistant, to be continued.
    Prefill,
    /// An image's bytes.
    ImageBytes,
    /// An image's address.
    ImageUrl,
    /// How closely to look at an image.
    ImageDetail,
    /// Sound as input.
    Audio,
    /// A film as input.
    Video,
    /// A document's bytes.
    FileBytes,
    /// A document's address.
    FileUrl,
    /// A document as plain text.
    FileText,
    /// Media in the provider's own store.
    StoredMedia,
    /// Marks up to where the prompt may be cached.
    CacheMark,
    /// Tools.
    Tools,
    /// Arguments that must follow their schema.
    ToolStrict,
    /// Calling no tool though there are some.
    ToolChoiceNone,
    /// Having to call some tool.
    ToolChoiceAny,
    /// Having to call one tool by name.
    ToolChoiceNamed,
    /// Having to call one of several by name.
    ToolChoiceSeveral,
    /// Whether several tools may be called in a turn.
    ParallelTools,
    /// Media among a tool's result.
    ToolResultMedia,
    /// Whether a tool failed.
    ToolFailed,
    /// Earlier thoughts without a signature.
    ThoughtText,
    /// Earlier thoughts with their signature.
    ThoughtSignature,
    /// Earlier thoughts that only the provider can read.
    SealedThought,
    /// An earlier refusal.
    Refusal,
    /// Texts that end an answer.
    Stops,
    /// Temperature.
    Temperature,
    /// Nucleus sampling.
    TopP,
    /// Drawing from so many tokens.
    TopK,
    /// Least share of the likeliest.
    MinP,
    /// A seed.
    Seed,
    /// Penalty by count.
    FrequencyPenalty,
    /// Penalty for presence.
    PresencePenalty,
    /// Penalty as a factor.
    RepetitionPenalty,
    /// Bias by token.
    LogitBias,
    /// No thinking.
    ThinkingOff,
    /// Thinking as much as the model likes.
    ThinkingAdaptive,
    /// Thinking by effort.
    ThinkingEffort,
    /// Thinking within a budget.
    ThinkingBudget,
    /// An answer that is a JSON object.
    JsonObject,
    /// An answer by a JSON schema.
    JsonSchema,
    /// Several answers at once.
    Answers,
    /// Probabilities of tokens.
    Logprobs,
    /// The end user.
    User,
    /// Notes on the call.
    Metadata,
    /// A class of service.
    ServiceTier,
}

impl Facet {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 47] = [
        Self::SystemMidway,
        Self::SpeakerName,
        Self::Prefill,
        Self::ImageBytes,
        Self::ImageUrl,
        Self::ImageDetail,
        Self::Audio,
        Self::Video,
        Self::FileBytes,
        Self::FileUrl,
        Self::FileText,
        Self::StoredMedia,
        Self::CacheMark,
        Self::Tools,
        Self::ToolStrict,
        Self::ToolChoiceNone,
        Self::ToolChoiceAny,
        Self::ToolChoiceNamed,
        Self::ToolChoiceSeveral,
        Self::ParallelTools,
        Self::ToolResultMedia,
        Self::ToolFailed,
        Self::ThoughtText,
        Self::ThoughtSignature,
        Self::SealedThought,
        Self::Refusal,
        Self::Stops,
        Self::Temperature,
        Self::TopP,
        Self::TopK,
        Self::MinP,
        Self::Seed,
        Self::FrequencyPenalty,
        Self::PresencePenalty,
        Self::RepetitionPenalty,
        Self::LogitBias,
        Self::ThinkingOff,
        Self::ThinkingAdaptive,
        Self::ThinkingEffort,
        Self::ThinkingBudget,
        Self::JsonObject,
        Self::JsonSchema,
        Self::Answers,
        Self::Logprobs,
        Self::User,
        Self::Metadata,
        Self::ServiceTier,
    ];
}

/// How a dialect carries a facet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// As it is.
    Kept,
    /// In other words that mean the same for the answer; how.
    Changed(&'static str),
    /// Not; the call is served without, and the loss declared. What becomes of it.
    Dropped(&'static str),
    /// Not; without it, it were another call. How to mend it.
    Refused(&'static str),
}

/// A call that the target's dialect cannot express, or that is no call of its own dialect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{param}` {message}")]
pub struct Unfit {
    /// The field at fault, as a path in the caller's body, such as `messages[2].content[0]`.
    pub param: String,
    /// What is wrong and how to mend it.
    pub message: String,
}

impl Unfit {
    /// `param` is at fault.
    #[must_use]
    pub fn new(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: param.into(), message: message.into() }
    }
}

/// One thing that was not carried over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// The field, as a path in the caller's body.
    pub path: String,
    /// What became of it; empty: the target has nothing like it.
    pub became: &'static str,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.became {
            "" => f.write_str(&self.path),
            became => write!(f, "{} ({became})", self.path),
        }
    }
}

/// What a caller's dialect calls a facet: the path of the field in its body, with `[]` for a place in a list.
pub type Fields = fn(Facet) -> &'static str;

/// What one conversion did not carry over. Bounded: the first few are told, the others counted.
#[derive(Clone, Debug)]
pub struct Losses {
    fields: Fields,
    told: Vec<Loss>,
    more: usize,
}

impl Losses {
    /// Of a call whose dialect has these names.
    #[must_use]
    pub const fn of(fields: Fields) -> Self {
        Self { fields, told: Vec::new(), more: 0 }
    }

    /// What the caller's dialect calls a facet; empty where it cannot say it.
    #[must_use]
    pub fn field(&self, facet: Facet) -> &'static str {
        (self.fields)(facet)
    }

    /// What is told one by one, in the order met.
    #[must_use]
    pub fn told(&self) -> &[Loss] {
        &self.told
    }

    /// How many others there are.
    #[must_use]
    pub const fn more(&self) -> usize {
        self.more
    }

    /// Whether nothing was lost.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// The field at `path` is dropped.
    pub fn drop(&mut self, path: impl Into<String>, became: &'static str) {
        let loss = Loss { path: path.into(), became };
        if self.told.contains(&loss) {
            return;
        }
        if self.told.len() < TOLD { self.told.push(loss) } else { self.more = self.more.saturating_add(1) }
    }

    /// The call has a facet, which the target carries like this. Gives whether to carry it.
    ///
    /// # Errors
    /// [`Unfit`] where the target refuses it.
    pub fn meet(&mut self, facet: Facet, fidelity: Fidelity) -> Result<bool, Unfit> {
        match fidelity {
            Fidelity::Kept | Fidelity::Changed(_) => Ok(true),
            Fidelity::Dropped(became) => {
                self.drop(self.field(facet), became);
                Ok(false)
            }
            Fidelity::Refused(mend) => Err(Unfit::new(self.field(facet), mend)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_told_once_and_the_list_is_bounded() {
        let mut losses = Losses::of(|_facet| "");
        for index in 0..20 {
            losses.drop(format!("messages[{index}].name"), "");
            losses.drop("seed", "");
        }
        assert_eq!(losses.told().len(), TOLD);
        assert_eq!(losses.more(), 5, "the seed is told, and fifteen names");
    }

    #[test]
    fn every_facet_is_listed() {
        let last = Facet::ServiceTier as usize;
        assert!(Facet::ALL.iter().map(|facet| *facet as usize).eq(0..=last));
    }

    #[test]
    fn what_a_target_refuses_names_the_field() {
        let field = |facet| if facet == Facet::Tools { "tools" } else { "" };
        let mut losses = Losses::of(field);
        let refused = losses.meet(Facet::Tools, Fidelity::Refused("has no like there; leave it out"));
        assert_eq!(refused.unwrap_err().to_string(), "`tools` has no like there; leave it out");
    }
}
