//! What others said, fit for operators' eyes: short, of one line, and without what looks like a secret. It takes out too
//! much rather than too little: a long unbroken run of letters and digits goes, whatever it is.

/// A run of letters and digits without a break is taken for a secret from this length on. Words and names are shorter;
/// a key of 80 bits in base 32 is as long.
const LONGEST_WORD: usize = 16;

const TAKEN_OUT: &str = "[redacted]";

/// At most `most` characters of `text`, redacted.
#[must_use]
pub fn redact(text: &str, most: usize) -> String {
    let mut out = String::new();
    let mut after_bearer = false;
    // More is not looked at: what is cut off is not shown.
    let start: String = text.chars().take(most.saturating_mul(4)).collect();
    for word in start.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        let secret = after_bearer || is_secret(word);
        out.push_str(if secret { TAKEN_OUT } else { word });
        after_bearer = word.to_ascii_lowercase().ends_with("bearer");
    }
    match out.char_indices().nth(most) {
        Some((end, _cut)) => format!("{}…", out.get(..end).unwrap_or_default().trim_end()),
        None => out,
    }
}

fn is_secret(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    lower.contains("sk-")
        || lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|run| run.len() >= LONGEST_WORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_pass_and_what_looks_like_a_key_does_not() {
        assert_eq!(redact("kaboom in\n layer 7", 300), "kaboom in layer 7");
        for secret in [
            "sk-abc",
            "Incorrect key 'sk-proj-1234'.",
            "api_key=AIzaSyA1234567890abcdef",
            "Authorization: Bearer short1",
            "key 0123456789abcdef0123456789abcdef is unknown",
        ] {
            let shown = redact(secret, 300);
            assert!(shown.contains(TAKEN_OUT), "{shown}");
            for part in ["sk-", "1234", "short1"] {
                assert!(!shown.contains(part), "{shown}");
            }
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let shown = redact(&"ü ".repeat(1_000), 300);
        assert!(shown.ends_with('…') && shown.chars().count() <= 301, "{shown}");
    }
}
