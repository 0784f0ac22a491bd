//! What of a call reaches which target, as a table in Markdown: from the same functions that conversions ask.

use crate::canon::{Facet, Fidelity};
use crate::{anthropic, gemini, openai};

/// What a caller of each API calls a facet, and what becomes of it at targets of each.
#[must_use]
pub fn fidelity_table() -> String {
    let mut table = String::from(
        "| what | OpenAI's callers | Anthropic's callers | Gemini's callers | OpenAI's targets | Anthropic's targets | Gemini's targets |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for facet in Facet::ALL {
        let names = [openai::chat::field(facet), anthropic::field(facet), gemini::field(facet)].map(called);
        let targets =
            [openai::chat::fidelity(facet), anthropic::fidelity(facet), gemini::fidelity(facet)].map(becomes);
        let cells = [[words(facet)].as_slice(), &names, &targets].concat();
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    table
}

/// `ToolChoiceNone` as `tool choice none`.
fn words(facet: Facet) -> String {
    let mut words = String::new();
    for (at, character) in format!("{facet:?}").char_indices() {
        if at > 0 && character.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(character.to_ascii_lowercase());
    }
    words
}

fn called(field: &str) -> String {
    if field.is_empty() { "–".to_owned() } else { format!("`{field}`") }
}

fn becomes(fidelity: Fidelity) -> String {
    let with = |what: &str, why: &str| match why {
        "" => what.to_owned(),
        why => format!("{what}: {why}"),
    };
    match fidelity {
        Fidelity::Kept => "kept".to_owned(),
        Fidelity::Changed(how) => with("changed", how),
        Fidelity::Dropped(why) => with("dropped", why),
        Fidelity::Refused(why) => with("refused", why),
    }
}
