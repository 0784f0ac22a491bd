//! What the Messages API can say: as a target, and in the caller's words.

use crate::canon::Facet;
use crate::canon::Fidelity::{self, Changed, Dropped, Kept, Refused};

const MOVED: &str = "instructions stand before the conversation: only some models take them within it";
const UNLIKE: &str = "this API has no such parameter";
const UNHEARD: &str = "is not taken by this model's API; leave it out or ask a model that takes it";
const STORED: &str = "is known to its own provider only; send the bytes";
const UNSIGNED: &str = "this API takes only thoughts that it signed";
const NO_SCHEMA: &str = "asks for any JSON, which this model's API cannot promise; give a schema";
const ONE: &str = "asks for several answers, and this model's API gives one; ask again for each";
const NO_LOGPROBS: &str = "asks for probabilities, which this model's API does not give; leave it out";

/// How a target that speaks this API carries a facet.
#[must_use]
pub const fn fidelity(facet: Facet) -> Fidelity {
    match facet {
        Facet::Prefill
        | Facet::ImageBytes
        | Facet::ImageUrl
        | Facet::FileBytes
        | Facet::FileUrl
        | Facet::FileText
        | Facet::CacheMark
        | Facet::Tools
        | Facet::ToolStrict
        | Facet::ToolChoiceNone
        | Facet::ToolChoiceAny
        | Facet::ToolChoiceNamed
        | Facet::ParallelTools
        | Facet::ToolResultMedia
        | Facet::ToolFailed
        | Facet::ThoughtSignature
        | Facet::SealedThought
        | Facet::Stops
        | Facet::Temperature
        | Facet::TopP
        | Facet::TopK
        | Facet::ThinkingOff
        | Facet::User => Kept,
        Facet::ToolChoiceSeveral => Changed("these tools alone are offered, and one must be called"),
        Facet::Refusal => Changed("as text"),
        Facet::ThinkingAdaptive => Changed("within a budget, where the model thinks by budget"),
        Facet::ThinkingEffort => Changed("as a budget, where the model thinks by budget"),
        Facet::ThinkingBudget => Changed("by itself, where the model takes no budget; then a loss is told"),
        Facet::JsonSchema => Changed("without its name; its description stands in the schema"),
        Facet::ServiceTier => Changed("`auto` and the standard class; of others a loss is told"),
        Facet::SystemMidway => Dropped(MOVED),
        Facet::ThoughtText => Dropped(UNSIGNED),
        Facet::SpeakerName
        | Facet::ImageDetail
        | Facet::MinP
        | Facet::Seed
        | Facet::FrequencyPenalty
        | Facet::PresencePenalty
        | Facet::RepetitionPenalty
        | Facet::LogitBias
        | Facet::Metadata => Dropped(UNLIKE),
        Facet::Audio | Facet::Video => Refused(UNHEARD),
        Facet::StoredMedia => Refused(STORED),
        Facet::JsonObject => Refused(NO_SCHEMA),
        Facet::Answers => Refused(ONE),
        Facet::Logprobs => Refused(NO_LOGPROBS),
    }
}

/// What a caller of this API calls a facet; empty: it cannot say it.
#[must_use]
pub const fn field(facet: Facet) -> &'static str {
    match facet {
        Facet::SystemMidway | Facet::Prefill => "messages[].role",
        Facet::ImageBytes | Facet::FileBytes | Facet::FileText => "messages[].content[].source.data",
        Facet::ImageUrl | Facet::FileUrl => "messages[].content[].source.url",
        Facet::StoredMedia => "messages[].content[].source.file_id",
        Facet::CacheMark => "cache_control",
        Facet::Tools => "tools",
        Facet::ToolStrict => "tools[].strict",
        Facet::ToolChoiceNone | Facet::ToolChoiceAny | Facet::ToolChoiceNamed => "tool_choice",
        Facet::ParallelTools => "tool_choice.disable_parallel_tool_use",
        Facet::ToolResultMedia => "messages[].content[].content[]",
        Facet::ToolFailed => "messages[].content[].is_error",
        Facet::ThoughtText => "messages[].content[].thinking",
        Facet::ThoughtSignature => "messages[].content[].signature",
        Facet::SealedThought => "messages[].content[].data",
        Facet::Stops => "stop_sequences",
        Facet::Temperature => "temperature",
        Facet::TopP => "top_p",
        Facet::TopK => "top_k",
        Facet::ThinkingOff | Facet::ThinkingAdaptive => "thinking",
        Facet::ThinkingEffort => "output_config.effort",
        Facet::ThinkingBudget => "thinking.budget_tokens",
        Facet::JsonSchema => "output_config.format",
        Facet::User => "metadata.user_id",
        Facet::ServiceTier => "service_tier",
        Facet::SpeakerName
        | Facet::ImageDetail
        | Facet::Audio
        | Facet::Video
        | Facet::ToolChoiceSeveral
        | Facet::Refusal
        | Facet::MinP
        | Facet::Seed
        | Facet::FrequencyPenalty
        | Facet::PresencePenalty
        | Facet::RepetitionPenalty
        | Facet::LogitBias
        | Facet::JsonObject
        | Facet::Answers
        | Facet::Logprobs
        | Facet::Metadata => "",
    }
}
