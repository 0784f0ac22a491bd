//! What this API can say: as a target, and in the caller's words.

use crate::canon::Facet;
use crate::canon::Fidelity::{self, Changed, Dropped, Kept, Refused};

const UNLIKE: &str = "this API has no such parameter";
const STORED: &str = "is known to its own provider only; send the bytes";

/// How a target that speaks this API carries a facet.
#[must_use]
pub const fn fidelity(facet: Facet) -> Fidelity {
    match facet {
        Facet::Prefill
        | Facet::ImageBytes
        | Facet::ImageUrl
        | Facet::Audio
        | Facet::Video
        | Facet::FileBytes
        | Facet::FileUrl
        | Facet::FileText
        | Facet::Tools
        | Facet::ToolChoiceNone
        | Facet::ToolChoiceAny
        | Facet::ToolChoiceNamed
        | Facet::ToolChoiceSeveral
        | Facet::ToolFailed
        | Facet::ThoughtText
        | Facet::ThoughtSignature
        | Facet::Stops
        | Facet::Temperature
        | Facet::TopP
        | Facet::TopK
        | Facet::Seed
        | Facet::FrequencyPenalty
        | Facet::PresencePenalty
        | Facet::ThinkingAdaptive
        | Facet::ThinkingBudget
        | Facet::JsonObject
        | Facet::JsonSchema
        | Facet::Answers
        | Facet::Logprobs => Kept,
        Facet::SystemMidway => Changed("joins the instructions before the conversation"),
        Facet::ToolStrict => Changed("holds for all tools at once, as the mode `VALIDATED`"),
        Facet::ToolResultMedia => Changed("beside the tool's result"),
        Facet::Refusal => Changed("as text"),
        Facet::ThinkingOff => Changed("as a budget of 0, or as the least level of models that take levels"),
        Facet::ThinkingEffort => Changed("as a level, or as a number of tokens for models that take those"),
        Facet::SpeakerName => Dropped("turns have no speaker's name"),
        Facet::ImageDetail => Dropped("the model looks as closely as it does by itself"),
        Facet::CacheMark => Dropped("the provider decides itself what it caches"),
        Facet::ParallelTools => Dropped("the model may call several tools in a turn"),
        Facet::SealedThought => Dropped("no other provider's model can read them"),
        Facet::MinP
        | Facet::RepetitionPenalty
        | Facet::LogitBias
        | Facet::User
        | Facet::Metadata
        | Facet::ServiceTier => Dropped(UNLIKE),
        Facet::StoredMedia => Refused(STORED),
    }
}

/// What a caller of this API calls a facet; empty: it cannot say it.
#[must_use]
pub const fn field(facet: Facet) -> &'static str {
    match facet {
        Facet::Prefill => "contents[].role",
        Facet::ImageBytes | Facet::Audio | Facet::Video | Facet::FileBytes | Facet::FileText => {
            "contents[].parts[].inlineData"
        }
        Facet::ImageUrl | Facet::FileUrl | Facet::StoredMedia => "contents[].parts[].fileData",
        Facet::Tools => "tools",
        Facet::ToolStrict
        | Facet::ToolChoiceNone
        | Facet::ToolChoiceAny
        | Facet::ToolChoiceNamed
        | Facet::ToolChoiceSeveral => "toolConfig.functionCallingConfig",
        Facet::ToolResultMedia => "contents[].parts[].functionResponse.parts",
        Facet::ToolFailed => "contents[].parts[].functionResponse.response",
        Facet::ThoughtText => "contents[].parts[].thought",
        Facet::ThoughtSignature => "contents[].parts[].thoughtSignature",
        Facet::Stops => "generationConfig.stopSequences",
        Facet::Temperature => "generationConfig.temperature",
        Facet::TopP => "generationConfig.topP",
        Facet::TopK => "generationConfig.topK",
        Facet::Seed => "generationConfig.seed",
        Facet::FrequencyPenalty => "generationConfig.frequencyPenalty",
        Facet::PresencePenalty => "generationConfig.presencePenalty",
        Facet::ThinkingOff | Facet::ThinkingAdaptive | Facet::ThinkingEffort | Facet::ThinkingBudget => {
            "generationConfig.thinkingConfig"
        }
        Facet::JsonObject => "generationConfig.responseMimeType",
        Facet::JsonSchema => "generationConfig.responseSchema",
        Facet::Answers => "generationConfig.candidateCount",
        Facet::Logprobs => "generationConfig.responseLogprobs",
        Facet::Metadata => "labels",
        Facet::ServiceTier => "serviceTier",
        Facet::SystemMidway
        | Facet::SpeakerName
        | Facet::ImageDetail
        | Facet::CacheMark
        | Facet::ParallelTools
        | Facet::SealedThought
        | Facet::Refusal
        | Facet::MinP
        | Facet::RepetitionPenalty
        | Facet::LogitBias
        | Facet::User => "",
    }
}
