//! The functions of the growth oracle, with their bounds. The factors are above what was measured, and far below what would
//! fill the memory: docs/growth.md has the measured ones.

use std::convert::Infallible;

use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use http::{HeaderMap, HeaderValue};
use lockkeeper::{
    fuzzing::{self, WebSocketBytes},
    mcp::{
        Facts, IndexedJson, Method, Payload, Revision,
        json::{
            self, At, Edits,
            draft::Draft,
            scan::{Elements, Measure, Members, compact},
        },
        jsonrpc::Frame,
        mirrored_params::Mirrored,
        translate::{Kind, MessageCarrier, checked, with_envelope, without_invalid_header_params, wrapped_tools},
    },
    oauth_client::BearerChallenge,
    support::Account,
    wire::{events::events, lines, sse},
};
use tokio_util::codec::Decoder as _;
use url::Url;

use super::{Function, Shape, shapes, wire_shapes};

/// The largest message here. A real one has 16 MiB at most.
const MESSAGE: usize = 12 << 20;
/// The largest head of a request or response that comes here.
const HEAD: usize = 64 << 10;
/// What one call may need whatever its input is.
const SMALL: usize = 64 << 10;
/// What a translation may add: `GROWTH_ALLOWANCE` of the translator, and an envelope.
const ALLOWANCE: usize = (2 << 20) + SMALL;

fn text(input: &Bytes) -> &str {
    std::str::from_utf8(input).expect("a text")
}

fn of(lists: &[&[Shape]]) -> Vec<Shape> {
    lists.concat()
}

/// Shapes for what knows only JSON.
fn all_json() -> Vec<Shape> {
    of(&[shapes::ANY, shapes::MESSAGES, shapes::CALLED, shapes::LOGGED])
}

fn payload(input: &Bytes, revision: Revision) -> Payload {
    Payload::new(revision, input.clone())
}

/// The longest translation between the versions that differ most.
fn translated(input: &Bytes, kind: Kind, method: &Method) -> Option<usize> {
    use Revision::{V2024_11_05, V2025_06_18, V2025_11_25, V2026_07_28};
    let question =
        Bytes::from_static(br#"{"requestedSchema":{"properties":{"c":{"type":"array","items":{"enum":["a","b"]}}}}}"#);
    let server = Bytes::from_static(br#"{"name":"s","version":"1"}"#);
    let client = lockkeeper::mcp::ClientInfo::gateway();
    let pairs = [
        (V2026_07_28, V2024_11_05),
        (V2026_07_28, V2025_06_18),
        (V2026_07_28, V2025_11_25),
        (V2025_11_25, V2026_07_28),
        (V2025_11_25, V2024_11_05),
        (V2025_06_18, V2026_07_28),
    ];
    let lengths = pairs.into_iter().filter_map(|(from, to)| {
        let question = Payload::new(to, question.clone());
        let question = (kind == Kind::Answer).then_some(&question);
        let (client, server, transport) = (Some(&client), Some(&server), MessageCarrier::Http);
        let facts = Facts { client, server, transport, question, ..Facts::new(kind, method) };
        payload(input, from).into_revision(to, &facts).ok().map(|carried| carried.json().len())
    });
    lengths.max()
}

/// Reads a stream in pieces of `length` bytes, and returns the bytes of its events.
fn read_events(input: &Bytes, length: usize) -> Option<usize> {
    let pieces =
        (0..input.len()).step_by(length).map(|at| Ok::<_, Infallible>(input.slice(at..input.len().min(at + length))));
    let read = events(stream::iter(pieces), Account::unbounded()).map(|event| event.map(|event| event.data.len()));
    let mut read = std::pin::pin!(read);
    let mut total = 0;
    while let Some(event) = read.next().now_or_never().expect("no wait") {
        total += event.ok()?;
    }
    Some(total)
}

fn read_lines(input: &Bytes, length: usize) -> Option<usize> {
    let (mut lines, mut buffer, mut total) = (lines::Lines::default(), BytesMut::new(), 0);
    for piece in input.chunks(length) {
        buffer.extend_from_slice(piece);
        while let Some(line) = lines.decode(&mut buffer).ok()? {
            total += line.len();
        }
    }
    while let Some(line) = lines.decode_eof(&mut buffer).ok()? {
        total += line.len();
    }
    Some(total)
}

#[expect(clippy::unnecessary_wraps, reason = "all functions are of one type")]
fn read_frames(input: &Bytes, length: usize) -> Option<usize> {
    let mut frames = WebSocketBytes::upgraded();
    Some(input.chunks(length).map(|piece| frames.feed(piece).data).sum())
}

fn headers(input: &Bytes, name: &'static str) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(name, HeaderValue::from_bytes(input).ok()?);
    Some(headers)
}

macro_rules! functions {
    ($($name:literal, output $output:expr, memory $memory:expr, up to $largest:expr, of $shapes:expr, $run:expr;)*) => {
        /// All functions.
        pub const FUNCTIONS: &[Function] = &[$(Function {
            name: $name, output: $output, memory: $memory, run: $run, shapes: || $shapes, largest: $largest,
        }),*];
    };
}

functions! {
    "json: check", output (0, 0), memory (1, 4096), up to MESSAGE, of all_json(),
        |input| fuzzing::is_json(text(input)).then_some(0);
    "json: members and elements", output (1, 0), memory (0, 4096), up to MESSAGE, of all_json(),
        |input| Some(Members::of(text(input)).map(|(name, value)| name.len() + value.len()).sum::<usize>().max(Elements::of(text(input)).map(str::len).sum()));
    "json: object", output (1, 0), memory (24, 4096), up to MESSAGE, of all_json(),
        |input| json::Object::parse(input).map(|object| object.iter().map(|(name, value)| name.len() + value.len()).sum());
    "json: index and look-up", output (1, 0), memory (1, 4096), up to MESSAGE, of all_json(),
        |input| { let json = IndexedJson::from(input.clone()); json.member("name").or(json.meta_member("x")).or(json.member("content")).map_or(Some(0), |found| Some(found.len())) };
    "json: one member set", output (2, SMALL), memory (6, SMALL), up to MESSAGE, of all_json(),
        |input| { let value = json::member(input, "logger").or(json::member(input, "_meta")).unwrap_or("1"); let set = ["logger", "_meta", "task", "structuredContent", "content"].into_iter().map(|key| json::with_member(input, key, value).len()); set.max() };
    "json: one member removed", output (1, 0), memory (24, SMALL), up to MESSAGE, of all_json(),
        |input| ["a", "_meta", "content", "id"].into_iter().map(|key| json::without_member(input, key).len()).max();
    "json: values replaced", output (4, SMALL), memory (64, SMALL), up to MESSAGE, of all_json(),
        |input| { let mut edits = Edits::default(); edits.visit_all(input, &[&[At::Key("content"), At::Each], &[At::Key("_meta"), At::Member], &[At::Key("a")]], &mut |value| (value.len() < 4).then(|| "[7,7]".to_owned())); Some(edits.apply(input).len()) };
    "json: a draft", output (16, SMALL), memory (16, SMALL), up to MESSAGE, of all_json(),
        |input| { let mut draft = Draft::of(text(input)); draft.each_member(|_, member| { member.set("a", "1"); member.each_element(|element| { element.set("b", "2"); }); }); draft.each_element(|element| element.set("a", "1")); draft.rename("a", "c"); draft.remove("x"); Some(draft.text().len()) };
    "json: compact and compare", output (1, 0), memory (128, SMALL), up to MESSAGE, of all_json(),
        |input| { let compacted = compact(text(input)); Measure::of(text(input)).is(&compacted).then_some(compacted.len()) };
    "messages", output (2, SMALL), memory (6, 4 << 20), up to MESSAGE, of all_json(),
        |input| match Frame::parse(input).and_then(Frame::unambiguous).ok()? { Frame::Single(message) => Some(message.encode().len()), Frame::Batch(messages) => Some(messages.into_iter().flatten().map(|message| message.encode().len()).max().unwrap_or_default()) };
    "translation: lists of tools", output (8, ALLOWANCE), memory (24, 4 * ALLOWANCE), up to MESSAGE, of of(&[shapes::ANY, shapes::TOOLS]),
        |input| translated(input, Kind::Result, &Method::ToolsList);
    "translation: results of tools", output (8, ALLOWANCE), memory (64, 4 * ALLOWANCE), up to MESSAGE, of of(&[shapes::ANY, shapes::CALLED, shapes::TASKS]),
        |input| translated(input, Kind::Result, &Method::ToolsCall);
    "translation: calls", output (8, ALLOWANCE), memory (8, 4 * ALLOWANCE), up to MESSAGE, of shapes::ANY.to_vec(),
        |input| translated(input, Kind::Request, &Method::ToolsCall);
    "translation: prompts", output (8, ALLOWANCE), memory (24, 4 * ALLOWANCE), up to MESSAGE, of of(&[shapes::ANY, shapes::LISTED]),
        |input| translated(input, Kind::Result, &Method::PromptsGet);
    "translation: resources", output (8, ALLOWANCE), memory (24, 4 * ALLOWANCE), up to MESSAGE, of of(&[shapes::ANY, shapes::LISTED]),
        |input| translated(input, Kind::Result, &Method::ResourcesList).max(translated(input, Kind::Result, &Method::ResourcesRead));
    "translation: sampling requests", output (8, ALLOWANCE), memory (96, 4 * ALLOWANCE), up to MESSAGE, of of(&[shapes::ANY, shapes::SAMPLING]),
        |input| translated(input, Kind::ServerRequest, &Method::CreateMessage);
    "translation: sampling answers", output (8, ALLOWANCE), memory (8, 4 * ALLOWANCE), up to MESSAGE, of of(&[shapes::ANY, shapes::SAMPLED]),
        |input| translated(input, Kind::Answer, &Method::CreateMessage);
    "translation: forms", output (8, ALLOWANCE), memory (12, 4 * ALLOWANCE), up to MESSAGE, of of(&[shapes::ANY, shapes::FORMS]),
        |input| translated(input, Kind::ServerRequest, &Method::Elicit);
    "translation: answers to forms", output (8, ALLOWANCE), memory (8, 4 * ALLOWANCE), up to MESSAGE, of of(&[shapes::ANY, shapes::FORM_ANSWERS]),
        |input| translated(input, Kind::Answer, &Method::Elicit);
    "translation: tasks", output (8, ALLOWANCE), memory (24, 4 * ALLOWANCE), up to MESSAGE, of of(&[shapes::ANY, shapes::TASKS]),
        |input| translated(input, Kind::Result, &Method::TasksGet).max(translated(input, Kind::Notification, &Method::Tasks));
    "translation: notifications", output (8, ALLOWANCE), memory (8, 4 * ALLOWANCE), up to MESSAGE, of of(&[shapes::ANY, shapes::LOGGED]),
        |input| translated(input, Kind::Notification, &Method::LoggingMessage).max(translated(input, Kind::Notification, &Method::Progress));
    "an envelope put around", output (1, SMALL), memory (16, SMALL), up to MESSAGE, of shapes::ANY.to_vec(),
        |input| Some(with_envelope(payload(input, Revision::NEWEST), &lockkeeper::mcp::ClientInfo::gateway()).json().len());
    "lists checked", output (4, SMALL), memory (96, ALLOWANCE), up to MESSAGE, of of(&[shapes::ANY, shapes::TOOLS, shapes::LISTED]),
        |input| { let lists = [Method::ToolsList, Method::PromptsList, Method::ResourcesList, Method::ResourceTemplatesList]; lists.into_iter().map(|method| { let read = checked(&method, payload(input, Revision::V2025_06_18), 100_000); read.page.json().len() + read.left_out.first().iter().map(|left| left.name.len() + left.reason.len()).sum::<usize>() }).max() };
    "tools: invalid headers left out", output (1, 0), memory (8, SMALL), up to MESSAGE, of of(&[shapes::ANY, shapes::TOOLS]),
        |input| Some(without_invalid_header_params(payload(input, Revision::NEWEST)).json().len());
    "tools: wrapped ones named", output (2, 0), memory (1, SMALL), up to MESSAGE, of of(&[shapes::ANY, shapes::TOOLS]),
        |input| Some(wrapped_tools(&payload(input, Revision::NEWEST)).iter().map(String::len).sum());
    "tools: mirrored parameters", output (2, SMALL), memory (160, SMALL), up to MESSAGE, of of(&[shapes::ANY, shapes::TOOL]),
        |input| Some(Mirrored::of_tool(input).map(|mirrored| format!("{mirrored:?}").len().min(SMALL)).unwrap_or_default());
    "merged: results", output (8, SMALL), memory (16, SMALL), up to MESSAGE, of of(&[shapes::ANY, shapes::CALLED, shapes::LISTED, shapes::LOGGED, shapes::TASKS]),
        |input| [Method::ToolsCall, Method::ResourcesRead, Method::ResourcesList, Method::TasksGet].into_iter().map(|method| fuzzing::shown_merged("b1", true, method, payload(input, Revision::NEWEST_LEGACY), true).json().len()).max();
    "merged: notifications", output (8, SMALL), memory (16, SMALL), up to MESSAGE, of of(&[shapes::ANY, shapes::LOGGED, shapes::TASKS]),
        |input| [Method::LoggingMessage, Method::ResourceUpdated, Method::Tasks].into_iter().map(|method| fuzzing::shown_merged("b1", true, method, payload(input, Revision::NEWEST_LEGACY), false).json().len()).max();
    "merged: questions", output (8, SMALL), memory (24, SMALL), up to MESSAGE, of of(&[shapes::ANY, shapes::ROUNDS]),
        |input| Some(fuzzing::questions_merged("b1", payload(input, Revision::NEWEST)).json().len());
    "results cut", output (2, SMALL), memory (32, SMALL), up to MESSAGE, of of(&[shapes::ANY, shapes::CALLED]),
        |input| Some(fuzzing::bounded_result(&payload(input, Revision::NEWEST), input.len() / 4).json().len());
    "rounds", output (0, 64), memory (3, SMALL), up to MESSAGE, of of(&[shapes::ANY, shapes::ROUNDS]),
        |input| fuzzing::round(&payload(input, Revision::NEWEST)).ok();
    "events read", output (1, 0), memory (6, SMALL), up to MESSAGE, of wire_shapes::EVENTS.to_vec(),
        |input| read_events(input, 4096);
    "events read in single bytes", output (1, 0), memory (3, SMALL), up to 4 << 20, of wire_shapes::EVENTS.to_vec(),
        |input| read_events(input, 1);
    "events written", output (8, 64), memory (12, SMALL), up to MESSAGE, of of(&[wire_shapes::BYTES, wire_shapes::LINES]),
        |input| Some(sse::message(input).len());
    "lines read", output (1, 0), memory (3, SMALL), up to MESSAGE, of wire_shapes::LINES.to_vec(),
        |input| read_lines(input, 4096);
    "lines read in single bytes", output (1, 0), memory (3, SMALL), up to MESSAGE, of wire_shapes::LINES.to_vec(),
        |input| read_lines(input, 1);
    "lines written", output (1, 1), memory (3, SMALL), up to MESSAGE, of of(&[wire_shapes::BYTES, wire_shapes::LINES]),
        |input| Some(lines::line(input.clone()).len());
    "frames of a WebSocket", output (1, 0), memory (0, SMALL), up to MESSAGE, of wire_shapes::FRAMES.to_vec(),
        |input| read_frames(input, 4096);
    "frames of a WebSocket in single bytes", output (1, 0), memory (0, SMALL), up to MESSAGE, of wire_shapes::FRAMES.to_vec(),
        |input| read_frames(input, 1);
    "responses over HTTP/1", output (1, 0), memory (3, 4 << 20), up to MESSAGE, of wire_shapes::RESPONSES.to_vec(),
        |input| super::super::http_response::length_of(input, 16 << 20);
    "challenges", output (1, 64), memory (12, SMALL), up to HEAD, of wire_shapes::CHALLENGES.to_vec(),
        |input| { let BearerChallenge { resource_metadata, scope, error, .. } = BearerChallenge::of(&[text(input).to_owned()]); Some([resource_metadata, scope, error].into_iter().flatten().map(|value| value.len()).sum()) };
    "addresses behind proxies", output (0, 64), memory (1, SMALL), up to HEAD, of wire_shapes::HOPS.to_vec(),
        |input| { let trusted = ["10.0.0.0/8".parse().expect("a network")]; let headers = headers(input, "x-forwarded-for")?; Some(fuzzing::client_address([10, 0, 0, 9].into(), &headers, &trusted).to_string().len()) };
    "cookies of a login", output (1, 64), memory (6, SMALL), up to HEAD, of wire_shapes::COOKIES.to_vec(),
        |input| Some(fuzzing::login_cookie(&headers(input, "cookie")?, &Url::parse("https://gw.example").expect("a URL"), "abc").len());
    "documents of clients", output (4, SMALL), memory (8, ALLOWANCE), up to HEAD, of wire_shapes::DOCUMENTS.to_vec(),
        |input| fuzzing::client_document(&Url::parse("https://app.example/client.json").expect("a URL"), input, &[]).ok().map(|client| client.metadata.len());
}
