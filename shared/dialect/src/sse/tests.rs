use proptest::prelude::*;

use super::*;

/// The events of `reads`, each as it was judged, and what was handed on.
fn split(reads: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<u8>, Bytes) {
    let mut splitter = Splitter::new(1 << 20);
    let (mut events, mut through) = (Vec::new(), Vec::new());
    for read in reads {
        let keep = |event: &[u8]| {
            events.push(event.to_vec());
            Judged::Keep
        };
        splitter.push(&Bytes::copy_from_slice(read), keep, |bytes| through.extend(bytes)).unwrap();
    }
    (events, through, splitter.rest())
}

/// Case B001: CR LF, LF and CR all end lines.
#[test]
fn every_line_ending_ends_events() {
    for end in ["\n", "\r\n", "\r"] {
        let first = format!("data: 1{end}data: 2{end}{end}");
        let second = format!(": c{end}{end}");
        let (events, ..) = split(&[format!("{first}{second}").as_bytes()]);
        assert_eq!(events, [first.as_bytes(), second.as_bytes()], "{end:?}");
    }
}

#[test]
fn adjacent_events_go_on_in_one_piece_and_dropped_ones_do_not() {
    let mut splitter = Splitter::new(64);
    let mut out = Vec::new();
    let read = Bytes::from_static(b"data: a\n\ndata: b\n\ndata: x\n\ndata: c\n\ndata: d\n\nda");
    let judge = |event: &[u8]| if event == b"data: x\n\n" { Judged::Drop } else { Judged::Keep };
    splitter.push(&read, judge, |bytes| out.push(bytes)).unwrap();
    splitter.push(&Bytes::from_static(b"ta: e\n\ndata: f\n\n"), judge, |bytes| out.push(bytes)).unwrap();
    assert_eq!(
        out,
        ["data: a\n\ndata: b\n\n", "data: c\n\ndata: d\n\n", "data: e\n\n", "data: f\n\n"].map(Bytes::from)
    );
}

/// Case B010: long events pass whole up to the limit, and never beyond it.
#[test]
fn an_event_is_bounded() {
    let mut splitter = Splitter::new(100);
    let piece = Bytes::from(vec![b'x'; 60]);
    assert_eq!(splitter.push(&piece, |_| Judged::Keep, drop), Ok(()));
    assert_eq!(splitter.push(&piece, |_| Judged::Keep, drop), Err(TooLong { limit: 100 }));
}

/// Cases B003, B006 and B008.
#[test]
fn fields_are_read_by_the_rule() {
    assert_eq!(read_event(b"data:{}\n\n").data, Data::One(b"{}"));
    assert_eq!(read_event(b"data:  {}\r\n\r\n").data, Data::One(b" {}"));
    assert_eq!(read_event(b": WAITING\n\n").data, Data::Absent);
    assert_eq!(read_event(b"database: 1\nid: 7\n\n").data, Data::Absent);
    assert_eq!(read_event(b"\xEF\xBB\xBFdata: 1\n\n").data, Data::One(b"1"));
    let event = read_event(b"event: error\rdata: {\rdata: }\r\r");
    assert_eq!((event.kind, event.data), (Some(&b"error"[..]), Data::Many(vec![b"{", b"}"])));
}

const LINES: [&str; 6] = ["data: {\"a\":\"語é\"}", ": c", "", "data:x", "event: e", "id"];

proptest! {
    /// Cases B001 and B004: wherever the network cuts, the events and the bytes are the same.
    #[test]
    fn every_cut_gives_the_same_events(
        lines in proptest::collection::vec((0usize..LINES.len(), 0usize..3), 1..12),
        cuts in proptest::collection::vec(0usize..200, 0..6),
    ) {
        let stream: String = lines.iter().map(|(line, end)| format!("{}{}", LINES[*line], ["\n", "\r\n", "\r"][*end])).collect();
        let stream = format!("{stream}tail");
        let bytes = stream.as_bytes();
        let (whole, through, rest) = split(&[bytes]);
        prop_assert_eq!([&through, &rest[..]].concat(), bytes);
        let data = |events: &[Vec<u8>]| -> Vec<Vec<u8>> {
            events.iter().map(|event| format!("{:?}", read_event(event)).into_bytes()).collect()
        };
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let parts: Vec<_> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let (cut, through, rest) = split(&parts);
        prop_assert_eq!(data(&cut), data(&whole));
        prop_assert_eq!([&through, &rest[..]].concat(), bytes);
        let single: Vec<_> = bytes.chunks(1).collect();
        let (bytewise, through, _rest) = split(&single);
        prop_assert_eq!(data(&bytewise), data(&whole));
        prop_assert!(through.is_empty() || ends_event(&through) || through.ends_with(b"\r") || stream.starts_with(['\n', '\r']));
    }
}
