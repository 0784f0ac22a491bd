//! `portolan config tokenizer`: whether edges can use a model's `tokenizer.json`, and what models name it by.

use std::fmt::Write as _;
use std::path::Path;

use tokens::{Digest, Reference, Vocabulary};

use crate::failure::{Exit, Failure, Outcome};
use crate::{files, out};

pub(crate) fn check(file: &Path, count: Option<&Path>) -> Outcome {
    let invalid = |what: String| Failure::new(Exit::Invalid, format!("{}: {what}", file.display()));
    let json = files::read(file)?;
    let digest = ring::digest::digest(&ring::digest::SHA256, json.as_bytes());
    let digest = Digest::try_from(digest.as_ref()).map_err(Failure::failed)?;
    let name = named(file, &digest).ok_or_else(|| {
        let mend = "call it NAME.json: up to 128 letters, digits, `.`, `_` and `-`, and no `.` first";
        invalid("no model can name it".to_owned()).mend(mend)
    })?;
    let vocabulary = Vocabulary::read(json.as_bytes(), digest).map_err(|why| invalid(why.to_string()))?;
    out::line(format_args!("tokenizer: {name}"));
    let Some(text) = count else { return Ok(()) };
    let counted = vocabulary.count(&files::read(text)?);
    let counted = counted.ok_or_else(|| invalid(format!("it cannot count {}", text.display())))?;
    out::line(format_args!("tokens: {}", counted.0));
    Ok(())
}

/// What models name the file by, if they can.
fn named(file: &Path, digest: &Digest) -> Option<String> {
    let mut name = file.file_name()?.to_str()?.strip_suffix(".json")?.to_owned();
    name.push_str("@sha256:");
    for byte in digest {
        // Writing to a string cannot fail.
        let _infallible = write!(name, "{byte:02x}");
    }
    let is_file = matches!(name.parse(), Ok(Reference::File { .. }));
    is_file.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_its_name_and_digest() {
        let named = |file: &str| named(Path::new(file), &[0x0a; 32]);
        assert_eq!(named("some/qwen3.json"), Some(format!("qwen3@sha256:{}", "0a".repeat(32))));
        for other in ["qwen3.txt", ".json", "o200k_base.json", "a b.json"] {
            assert_eq!(named(other), None, "{other}");
        }
    }
}
