use proptest::prelude::*;

use super::*;
use crate::openai::{Counted, Media};

fn body(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn chat(text: &str) -> Ask {
    scan_chat(&body(text)).unwrap()
}

fn refused(text: &str) -> (Option<&'static str>, String) {
    let bad = scan_chat(&body(text)).unwrap_err();
    (bad.param, bad.message)
}

const MESSAGES: &str = r#""messages":[{"role":"user","content":"hi"}]"#;

#[test]
fn a_chat_call_is_read() {
    let ask = chat(
        r#"{"model":"m\u0061","messages":[{"role":"user","content":"hi"}],"stream":true,"n":2,
        "stream_options":{"include_usage":true},"max_tokens":7,"max_completion_tokens":9,"tools":[]}"#,
    );
    assert_eq!((ask.model.as_str(), ask.stream, ask.include_usage, ask.choices), ("ma", true, true, 2));
    assert_eq!((ask.cap, ask.facts.messages, ask.facts.tools), (Some(Tokens(9)), 1, true));
}

#[test]
fn a_patch_changes_its_spans_and_nothing_else() {
    let text = r#" { "x" : [1,  2.50, "é"], "model" : "a", "messages":[{"role":"user","content":"hi"}],"stream":true }"#;
    let ask = chat(text);
    let patch = Patch { model: Some("b\"c"), include_usage: true, cap: Some(Tokens(5)), ..Patch::default() };
    let expected = r#" {"stream_options":{"include_usage":true},"max_tokens":5, "x" : [1,  2.50, "é"], "model" : "b\"c", "messages":[{"role":"user","content":"hi"}],"stream":true }"#;
    assert_eq!(ask.patch(&body(text), &patch), expected);
    assert_eq!(ask.patch(&body(text), &Patch::default()), text);
}

/// Cases B023 and B078: usage is asked for in every spelling of "not asked".
#[test]
fn usage_is_asked_for_however_the_options_stand() {
    for (options, patched) in [
        ("{}", r#"{"include_usage":true}"#),
        ("null", r#"{"include_usage":true}"#),
        (r#"{"include_usage":false}"#, r#"{"include_usage":true}"#),
        (r#"{"include_usage": null, "x":1}"#, r#"{"include_usage": true, "x":1}"#),
        (r#"{ "x":1}"#, r#"{"include_usage":true, "x":1}"#),
    ] {
        let text = format!(r#"{{"model":"m",{MESSAGES},"stream":true,"stream_options":{options}}}"#);
        let got = chat(&text).patch(&body(&text), &Patch { include_usage: true, ..Patch::default() });
        let want = format!(r#"{{"model":"m",{MESSAGES},"stream":true,"stream_options":{patched}}}"#);
        assert_eq!(got, want.as_bytes(), "{options}");
        assert!(scan_chat(&got).unwrap().include_usage);
    }
}

#[test]
fn a_cap_lowers_what_the_caller_gave_and_raises_nothing() {
    for (given, patched) in [
        (r#""max_tokens":900"#, r#""max_tokens":5"#),
        (r#""max_completion_tokens": 900"#, r#""max_completion_tokens": 5"#),
        (r#""max_tokens":null"#, r#""max_tokens":5"#),
        (r#""max_tokens":null,"max_completion_tokens":9"#, r#""max_tokens":null,"max_completion_tokens":5"#),
        (r#""max_tokens":3,"max_completion_tokens":9"#, r#""max_tokens":3,"max_completion_tokens":5"#),
        (r#""max_tokens": 5"#, r#""max_tokens": 5"#),
    ] {
        let text = format!(r#"{{"model":"m",{MESSAGES},{given}}}"#);
        let got = chat(&text).patch(&body(&text), &Patch { cap: Some(Tokens(5)), ..Patch::default() });
        assert_eq!(got, format!(r#"{{"model":"m",{MESSAGES},{patched}}}"#).as_bytes());
    }
}

#[test]
fn a_wrong_type_is_refused_with_its_field_and_a_mend() {
    for (field, param) in [
        (r#""stream":"true""#, "stream"),
        (r#""stream":1"#, "stream"),
        (r#""stream_options":true"#, "stream_options"),
        (r#""stream_options":{"include_usage":1}"#, "stream_options.include_usage"),
        (r#""n":0"#, "n"),
        (r#""n":"2""#, "n"),
        (r#""max_tokens":-1"#, "max_tokens"),
        (r#""max_tokens":1.5"#, "max_tokens"),
        (r#""max_completion_tokens":"9""#, "max_completion_tokens"),
        (r#""mod\u0065l":"again""#, "model"),
    ] {
        let (named, message) = refused(&format!(r#"{{"model":"m",{MESSAGES},{field}}}"#));
        assert_eq!(named, Some(param), "{field}: {message}");
        assert!(message.contains(param), "{message}");
    }
    assert_eq!(
        refused(r#"{"model":"m","messages":"hi"}"#).1,
        "`messages` must be an array of messages; this is a text"
    );
    assert_eq!(refused(r#"{"messages":[]}"#).0, Some("model"));
    assert_eq!(refused(r#"{"model":7}"#).0, Some("model"));
}

#[test]
fn what_is_not_one_json_object_is_refused() {
    for text in ["", "hi", "[]", "null", "{", r#"{"model":"m""#, "{} x", "{\"a\":\"\u{1}\"}"] {
        assert_eq!(refused(text).0, None, "{text}");
    }
    assert!(scan_chat(&Bytes::from_static(b"{\"model\":\"\xff\"}")).unwrap_err().message.contains("UTF-8"));
}

#[test]
fn ten_megabytes_of_nesting_are_refused_without_recursion() {
    let text = format!(r#"{{"model":"m","x":{}"#, "[".repeat(10 << 20));
    assert!(refused(&text).1.contains("deeper than 128"));
    let flat = format!(r#"{{"model":"m",{MESSAGES},"x":{}{}}}"#, "[".repeat(120), "]".repeat(120));
    assert_eq!(chat(&flat).model, "m");
    let quoted = format!(r#"{{"model":"m",{MESSAGES},"x":"{}\"{}"}}"#, "[".repeat(200), "{".repeat(200));
    assert_eq!(chat(&quoted).model, "m");
}

#[test]
fn media_have_no_bound_and_text_has() {
    let with = |part: &str| {
        let text = format!(r#"{{"model":"m","messages":[{{"role":"user","content":[{part}]}}]}}"#);
        chat(&text).facts.token_bound(Counted::default(), Media::default())
    };
    assert!(with(r#"{"type":"text","text":"hi"}"#).is_ok());
    assert_eq!(with(r#"{"type":"image_url","image_url":{"url":"https://x/y.png"}}"#), Err("image_url"));
    assert_eq!(with(r#"{"type":"input_audio","input_audio":{}}"#), Err("input_audio"));
    assert_eq!(with(r#"{"type":"file","file":{"file_id":"f"}}"#), Err("file"));
    assert_eq!(with(r#"{"type":"video","v":1}"#), Err("content part"));
}

#[test]
fn what_was_counted_and_what_images_come_to_at_most_stands_for_their_bytes() {
    let image = r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}"#;
    let text = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":[{{"type":"text","text":"hello world"}},{image},{image}]}}]}}"#
    );
    let facts = chat(&text).facts;
    let counted = Counted { bytes: 13, tokens: Tokens(2), ..Counted::default() };
    let each = Media { image: Some(Tokens(1_000)), ..Media::default() };
    assert_eq!((facts.images, facts.media_bytes), (2, 2 * image.len()));
    assert_eq!(facts.token_bound(counted, Media::default()), Err("image_url"));
    let rest = (text.len() - 13 - 2 * image.len()) as u64;
    assert_eq!(facts.token_bound(counted, each), Ok(Tokens(2 + rest + 2_000 + 256)));
    let tools = text.replace(r#""model""#, r#""tools":[],"model""#);
    let more = (tools.len() - 13 - 2 * image.len()) as u64;
    assert_eq!(chat(&tools).facts.token_bound(counted, each), Ok(Tokens(2 + 2 * more + 2_000 + 1_024 + 256)));
}

#[test]
fn sound_and_files_are_bounded_where_the_model_says_by_how_much() {
    let parts = r#"{"type":"input_audio","input_audio":{"data":"AAAA","format":"mp3"}},{"type":"file","file":{"file_id":"f"}}"#;
    let text = format!(r#"{{"model":"m","messages":[{{"role":"user","content":[{parts}]}}]}}"#);
    let facts = chat(&text).facts;
    assert_eq!((facts.sounds.parts, facts.files, facts.media_bytes), (1, 1, parts.len() - 1));
    let bound = |sounds, file| {
        let media = Media { sounds, file, image: None };
        facts.token_bound(Counted::default(), media)
    };
    assert_eq!(bound(None, Some(Tokens(1))), Err("input_audio"));
    assert_eq!(bound(Some(Tokens(1)), None), Err("file"));
    let rest = (text.len() - parts.len() + 1) as u64;
    assert_eq!(bound(Some(Tokens(70)), Some(Tokens(5_000))), Ok(Tokens(rest + 70 + 5_000 + 256)));
}

#[test]
fn an_embeddings_call_is_read() {
    let text = r#"{"input":["a","b"],"model":"e","encoding_format":"base64","zz":{"a":1}}"#;
    let ask = scan_embeddings(&body(text)).unwrap();
    assert_eq!((ask.model.as_str(), ask.stream, ask.facts.bytes), ("e", false, text.len()));
    let patched = ask.patch(&body(text), &Patch { model: Some("f"), ..Patch::default() });
    assert_eq!(patched, text.replace("\"e\"", "\"f\"").as_bytes());
    assert_eq!(scan_embeddings(&body(r#"{"model":"e","input":5}"#)).unwrap_err().param, Some("input"));
}

proptest! {
    #[test]
    fn unknown_fields_survive_byte_for_byte(
        key in "[a-z]{1,9}_x", text in "\\PC{0,20}", number in any::<f64>().prop_filter("finite", |n| n.is_finite()), pad in "[ \n\t]{0,3}",
    ) {
        let unknown = format!("{pad}{}{pad}:{pad}[{},{pad}{number:e}]{pad}", quoted(&key), quoted(&text));
        let whole = format!(r#"{pad}{{{unknown},"model":"m",{MESSAGES}}}{pad}"#);
        let ask = scan_chat(&body(&whole)).unwrap();
        let patched = ask.patch(&body(&whole), &Patch { model: Some("n"), include_usage: true, ..Patch::default() });
        let expected = whole.replace("\"model\":\"m\"", "\"model\":\"n\"");
        prop_assert_eq!(patched, expected.as_bytes());
    }

    #[test]
    fn no_bytes_make_the_scan_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        drop(scan_chat(&Bytes::from(bytes.clone())));
        drop(scan_embeddings(&Bytes::from(bytes)));
    }
}
