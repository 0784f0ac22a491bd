//! What a call lost on its way into its target's API, in words: for its record, and for a header of its answer.
//!
//! Fields are named as the caller wrote them, so that their names are bounded here; what they held is never told.

use dialect::canon::Losses;
use http::{HeaderName, HeaderValue};

/// Tells the caller.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-portolan-lost");

/// Longest header in bytes.
const LONGEST: usize = 1_024;

/// Longest name of one field, and what became of it, in characters.
const LONGEST_OF_ONE: usize = 120;

/// One by one, and how many more there are than are told.
pub(crate) fn words(losses: &Losses) -> Vec<String> {
    let one = |loss: &dialect::canon::Loss| loss.to_string().chars().take(LONGEST_OF_ONE).collect();
    let more = (losses.more() > 0).then(|| more(losses.more()));
    losses.told().iter().map(one).chain(more).collect()
}

/// As a header's value; `None` when nothing was lost. Characters that a header or a list cannot hold become `?`.
pub(crate) fn header(losses: &Losses) -> Option<HeaderValue> {
    let told: Vec<String> = words(losses).iter().map(|words| words.chars().map(plain).collect()).collect();
    let mut value = String::new();
    for (at, one) in told.iter().enumerate() {
        let left = more(told.len() - at);
        if value.len() + one.len() + left.len() + 4 > LONGEST {
            value.push_str("; ");
            value.push_str(&left);
            break;
        }
        if at > 0 {
            value.push_str("; ");
        }
        value.push_str(one);
    }
    (!value.is_empty()).then(|| HeaderValue::try_from(value).ok()).flatten()
}

fn more(count: usize) -> String {
    format!("and {count} more")
}

fn plain(character: char) -> char {
    match character {
        ';' => ',',
        ' '..='~' => character,
        _other => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_bounded_and_plain_whatever_fields_are_called() {
        let mut losses = Losses::of(|_facet| "");
        assert_eq!(header(&losses), None);
        losses.drop("a\r\nset-cookie: x; é", "");
        losses.drop("top_k", "this API has no such parameter");
        let told = header(&losses).unwrap();
        assert_eq!(told, "a??set-cookie: x, ?; top_k (this API has no such parameter)");
        for field in 0..40 {
            losses.drop(format!("{field}{}", "é".repeat(500)), "");
        }
        let told = header(&losses).unwrap();
        assert!(told.len() <= LONGEST && told.to_str().unwrap().ends_with(" more"), "{told:?}");
        assert!(words(&losses).iter().all(|words| words.chars().count() <= LONGEST_OF_ONE));
        assert_eq!(words(&losses).last().unwrap(), "and 26 more");
    }
}
