//! What chat completions can say: as a target, and in the caller's words.

use crate::canon::Facet;
use crate::canon::Fidelity::{self, Changed, Dropped, Kept, Refused};

const CACHES: &str = "the provider decides itself what it caches";
const UNREAD: &str = "models of this API are not given earlier thoughts";
const STORED: &str = "is known to its own provider only; send the bytes";
const UNLIKE: &str = "this API has no such parameter";

/// How a target that speaks chat completions carries a facet.
#[must_use]
pub const fn fidelity(facet: Facet) -> Fidelity {
    match facet {
        Facet::SystemMidway
        | Facet::SpeakerName
        | Facet::Prefill
        | Facet::ImageBytes
        | Facet::ImageUrl
        | Facet::ImageDetail
        | Facet::Audio
        | Facet::FileBytes
        | Facet::Tools
        | Facet::ToolStrict
        | Facet::ToolChoiceNone
        | Facet::ToolChoiceAny
        | Facet::ToolChoiceNamed
        | Facet::ParallelTools
        | Facet::Refusal
        | Facet::Stops
        | Facet::Temperature
        | Facet::TopP
        | Facet::Seed
        | Facet::FrequencyPenalty
        | Facet::PresencePenalty
        | Facet::LogitBias
        | Facet::ThinkingEffort
        | Facet::JsonObject
        | Facet::JsonSchema
        | Facet::Answers
        | Facet::Logprobs
        | Facet::User
        | Facet::Metadata => Kept,
        Facet::FileText => Changed("as text"),
        Facet::ToolChoiceSeveral => Changed("these tools alone are offered, and one must be called"),
        Facet::ToolResultMedia => Changed("in a message of the user after the results"),
        Facet::ToolFailed => Changed("the result's text begins with `error: `"),
        Facet::ThinkingBudget => Changed("as the effort that comes nearest"),
        Facet::CacheMark => Dropped(CACHES),
        Facet::ThoughtText | Facet::ThoughtSignature | Facet::SealedThought => Dropped(UNREAD),
        Facet::TopK | Facet::MinP | Facet::RepetitionPenalty | Facet::ServiceTier => Dropped(UNLIKE),
        Facet::ThinkingOff | Facet::ThinkingAdaptive => Dropped("the model thinks as it does by itself"),
        Facet::Video => Refused("is a film, which this model's API does not take; send frames as images"),
        Facet::FileUrl => Refused("is an address, which this model's API does not fetch; send the bytes"),
        Facet::StoredMedia => Refused(STORED),
    }
}

/// What a caller of chat completions calls a facet; empty: it cannot say it.
#[must_use]
pub const fn field(facet: Facet) -> &'static str {
    match facet {
        Facet::SystemMidway | Facet::Prefill => "messages[].role",
        Facet::SpeakerName => "messages[].name",
        Facet::ImageBytes | Facet::ImageUrl => "messages[].content[].image_url.url",
        Facet::ImageDetail => "messages[].content[].image_url.detail",
        Facet::Audio => "messages[].content[].input_audio",
        Facet::FileBytes => "messages[].content[].file.file_data",
        Facet::StoredMedia => "messages[].content[].file.file_id",
        Facet::Tools => "tools",
        Facet::ToolStrict => "tools[].function.strict",
        Facet::ToolChoiceNone | Facet::ToolChoiceAny | Facet::ToolChoiceNamed | Facet::ToolChoiceSeveral => {
            "tool_choice"
        }
        Facet::ParallelTools => "parallel_tool_calls",
        Facet::ToolResultMedia => "messages[].content[]",
        Facet::ThoughtText => "messages[].reasoning_content",
        Facet::ThoughtSignature | Facet::SealedThought => "messages[].reasoning_details",
        Facet::Refusal => "messages[].refusal",
        Facet::Stops => "stop",
        Facet::Temperature => "temperature",
        Facet::TopP => "top_p",
        Facet::TopK => "top_k",
        Facet::MinP => "min_p",
        Facet::Seed => "seed",
        Facet::FrequencyPenalty => "frequency_penalty",
        Facet::PresencePenalty => "presence_penalty",
        Facet::RepetitionPenalty => "repetition_penalty",
        Facet::LogitBias => "logit_bias",
        Facet::ThinkingOff | Facet::ThinkingEffort => "reasoning_effort",
        Facet::JsonObject | Facet::JsonSchema => "response_format",
        Facet::Answers => "n",
        Facet::Logprobs => "logprobs",
        Facet::User => "user",
        Facet::Metadata => "metadata",
        Facet::ServiceTier => "service_tier",
        Facet::Video
        | Facet::FileUrl
        | Facet::FileText
        | Facet::CacheMark
        | Facet::ToolFailed
        | Facet::ThinkingAdaptive
        | Facet::ThinkingBudget => "",
    }
}
