//! Server-sent events in all splits against the algorithm of the standard (WHATWG HTML 9.2.6), and the events that the
//! gateway writes. Input: a byte that selects which, and the bytes of a stream.
//!
//! What is compared of each block that ends with a blank line: name, data, id and delay. A value that is no UTF-8 ends the
//! stream here, where the standard replaces it; up to there the events are the same.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use lockkeeper::{
    support::Account,
    wire::{
        events::{EventsError, SseEvent, events},
        sse,
    },
};

use super::input::{Dice, splits};

/// A block of fields.
#[derive(Debug, Default, Clone, PartialEq)]
struct Block {
    name: String,
    data: Vec<u8>,
    id: Option<String>,
    retry: Option<u64>,
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut dice = Dice::new(data);
    let kind = dice.byte();
    if kind % 4 == 3 {
        written(dice.rest());
        return;
    }
    let bytes = dice.rest();
    let (expected, is_text) = standard(bytes);
    // bytes that are no UTF-8 are read as U+FFFD
    let as_text =
        |block: Block| Block { data: String::from_utf8_lossy(&block.data).into_owned().into_bytes(), ..block };
    let expected: Vec<Block> = expected.into_iter().map(as_text).collect();
    splits(bytes, |pieces| {
        let read = read(pieces);
        let blocks: Vec<Block> = read.iter().map_while(|event| event.as_ref().ok()).map(block).collect();
        let broke = blocks.len() < read.len();
        assert!(!broke || !is_text, "{bytes:?} in {pieces:?}: {read:?}");
        if broke {
            assert!(expected.starts_with(&blocks), "{blocks:?} of {bytes:?}, not {expected:?}");
        } else {
            assert_eq!(blocks, expected, "{bytes:?} in {pieces:?}");
        }
    });
}

/// Streams like these.
pub fn seeds() -> Vec<Vec<u8>> {
    let streams = [
        "0: hello\n\nid: 1\nretry: 20\ndata:\n\nevent: message\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\nevent: other\ndata: x\n\n",
        "0\u{feff}data: a\r\rdata:b\rid\r\r",
        "0data: \u{1f980}\ndata\ndata:  x\n\nid: a\u{0}b\nretry: 1e3\n\n",
        "3message\n{\"a\":\r\n1}",
    ];
    streams.into_iter().map(|stream| stream.as_bytes().to_vec()).collect()
}

fn read(pieces: &[&[u8]]) -> Vec<Result<SseEvent, EventsError>> {
    let pieces: Vec<_> = pieces.iter().map(|piece| Ok::<_, Infallible>(Bytes::copy_from_slice(piece))).collect();
    events(stream::iter(pieces), Account::unbounded()).collect().now_or_never().expect("no wait")
}

fn block(event: &SseEvent) -> Block {
    Block {
        name: event.name.clone().unwrap_or_default(),
        data: event.data.to_vec(),
        id: event.id.clone(),
        retry: event.retry.map(|retry| u64::try_from(retry.as_millis()).unwrap_or(u64::MAX)),
    }
}

/// The blocks of the standard that have a field, and whether every value is text.
fn standard(bytes: &[u8]) -> (Vec<Block>, bool) {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let (mut blocks, mut block, mut has_field, mut is_text) = (Vec::new(), Block::default(), false, true);
    let mut data: Option<Vec<u8>> = None;
    for line in lines(bytes) {
        if line.is_empty() {
            if std::mem::take(&mut has_field) {
                block.data = data.take().unwrap_or_default();
                blocks.push(std::mem::take(&mut block));
            }
            block = Block::default();
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        if matches!(name, b"data" | b"event" | b"id" | b"retry") && std::str::from_utf8(value).is_err() {
            is_text = false;
        }
        let text = String::from_utf8_lossy(value).into_owned();
        match name {
            b"data" => {
                has_field = true;
                match &mut data {
                    Some(data) => {
                        data.push(b'\n');
                        data.extend_from_slice(value);
                    }
                    None => data = Some(value.to_vec()),
                }
            }
            b"event" => {
                has_field = true;
                block.name = text;
            }
            b"id" if !value.contains(&0) => {
                has_field = true;
                block.id = Some(text);
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                // what is longer than any time is no time
                if let Ok(millis) = text.parse() {
                    has_field = true;
                    block.retry = Some(millis);
                }
            }
            _ => {}
        }
    }
    (blocks, is_text)
}

/// The lines that end.
fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut lines, mut rest) = (Vec::new(), bytes);
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
        lines.push(&rest[..end]);
        let length = if rest[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = &rest[end + length..];
    }
    lines
}

/// An event that the gateway writes is read as it was meant.
fn written(data: &[u8]) {
    let mut dice = Dice::new(data);
    let id: String = dice.line().iter().map(|byte| char::from(b'!' + byte % 90)).collect();
    let Ok(text) = std::str::from_utf8(dice.rest()) else { return };
    let lines = text.replace("\r\n", "\n\n").replace('\r', "\n");
    let expected = |id: Option<&str>, retry| Block {
        name: "message".to_owned(),
        data: lines.clone().into_bytes(),
        id: id.map(str::to_owned),
        retry,
    };
    let one = |bytes: Bytes| {
        let read = read(&[&bytes]);
        let [Ok(event)] = read.as_slice() else { panic!("{read:?} of {bytes:?}") };
        block(event)
    };
    assert_eq!(one(sse::message(text.as_bytes())), expected(None, None));
    assert_eq!(one(sse::numbered(&id, text.as_bytes())), expected(Some(&id), None));
    let priming = one(sse::priming(&id, Duration::from_millis(7)));
    assert_eq!((priming.id.as_deref(), priming.retry, priming.data.as_slice()), (Some(id.as_str()), Some(7), &b""[..]));
}
