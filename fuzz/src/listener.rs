//! Requests through the listener against `httparse` and the framing rules of RFC 9112 6.3, over a stream in memory with a
//! paused clock. Input: a byte that selects how the bytes are split, one for what the client does, and the bytes of requests.
//!
//! Oracles: the service gets the requests that the plain reader finds, with their bodies, in order, and no other; each is
//! answered once, in order; after a request with two lengths nothing is read; the connection ends, whatever the client does.

use std::{
    future, io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::to_bytes,
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, Method, StatusCode, Uri};
use lockkeeper::{
    listener::{Accept, Lifecycle, ListenerSettings, Workers, serve},
    support::Live,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    runtime::Builder,
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    http_response::chunks,
    input::{Dice, pieces},
};

/// Longer inputs are for the growth oracle.
const MAX_INPUT: usize = 1 << 14;
/// Headers that the listener reads at most.
const MAX_HEADERS: usize = 100;
/// A longer body that the service does not read ends the connection.
const MAX_DISCARDED: u64 = 256 * 1024;
/// More than all deadlines of a connection, one after the other. The clock is paused, so this takes no time.
const FOREVER: Duration = Duration::from_hours(24);
/// The beginning of HTTP/2 (RFC 9113 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2";
/// Names the request that a response answers.
const ANSWERS: &str = "x-answers";

/// What the client does after its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It waits.
    Waits,
    /// The same, after pauses between its bytes.
    Lingers,
    /// It says that nothing follows.
    Finishes,
    /// It is gone.
    Breaks,
}

/// A request that reached the service, or should.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    method: String,
    target: String,
    /// By name, without those of the framing.
    headers: Vec<(String, Vec<u8>)>,
    body: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Whole(Vec<u8>),
    /// It breaks off.
    Broken,
    /// The service answers without it.
    Unread,
}

/// What follows the last request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// The connection may be used again.
    Open,
    /// Something that is no request: one more answer.
    Refused,
    /// A part of a head: one more answer if it is the first. What came with a request before it may pass for silence.
    Unfinished,
    /// Nothing is read.
    Closed,
    /// What follows depends on rules that are not those of the framing.
    Unknown,
}

type Requests = Arc<Mutex<Vec<Seen>>>;

/// A listening socket in memory.
struct Arrivals(mpsc::UnboundedReceiver<DuplexStream>);

impl Accept for Arrivals {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, SocketAddr)> {
        match self.0.recv().await {
            Some(stream) => Ok((stream, SocketAddr::from(([192, 0, 2, 1], 4711)))),
            None => future::pending().await,
        }
    }
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut dice = Dice::new(data);
    let cuts = dice.byte();
    let ending = *dice.one(&[Ending::Waits, Ending::Waits, Ending::Lingers, Ending::Finishes, Ending::Breaks]);
    let bytes = dice.rest();
    if bytes.len() > MAX_INPUT {
        return;
    }
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let played = runtime.block_on(async { timeout(FOREVER, play(bytes, u64::from(cuts), ending)).await });
    let Ok((seen, answers)) = played else { panic!("no end of {bytes:?}") };
    let (expected, last) = plain(bytes);
    let what = || format!("{ending:?} {:?}", String::from_utf8_lossy(bytes));
    match ending {
        Ending::Waits => exact((&seen, &answers), (&expected, last), &what),
        // deadlines and the end of the connection may come earlier than the request
        Ending::Lingers | Ending::Finishes | Ending::Breaks => {
            if last != Last::Unknown {
                assert!(seen.len() <= expected.len(), "{seen:?}, not {expected:?}: {}", what());
            }
            for (seen, expected) in seen.iter().zip(&expected) {
                let cut = Seen { body: Content::Broken, ..expected.clone() };
                assert!(seen == expected || *seen == cut, "{seen:?}, not {expected:?}: {}", what());
            }
            if ending != Ending::Breaks {
                read_answers(&answers, &seen, &what);
            }
        }
    }
}

/// Requests like these.
pub fn seeds() -> Vec<Vec<u8>> {
    let requests = [
        "00GET / HTTP/1.1\r\nhost: h\r\n\r\nGET /two HTTP/1.1\r\nhost: h\r\n\r\n",
        "15POST /mcp HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}POST /early HTTP/1.1\r\ncontent-length: 3\r\n\r\nabcGET / HTTP/1.0\r\n\r\n",
        "20POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n0\r\n\r\nGET / HTTP/1.1\r\nconnection: close\r\n\r\n",
        "35POST / HTTP/1.1\r\ncontent-length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
        "40POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\ncontent-length: 4\r\n\r\n2\r\n{}\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
        "50POST /early HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n{}",
        "62POST / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n{}HEAD / HTTP/1.1\r\n\r\n",
        "73POST / HTTP/1.0\r\nconnection: keep-alive\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\n1GET * HTTP/1.1\r\n\r\n",
        "84GET http://h/?q HTTP/1.1\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "90POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\nshort",
    ];
    requests.into_iter().map(|request| request.as_bytes().to_vec()).collect()
}

/// One connection from its first byte to its end: the requests that the service got, and all that the client read.
async fn play(bytes: &[u8], cuts: u64, ending: Ending) -> (Vec<Seen>, Vec<u8>) {
    let (requests, tracker, drain) = (Requests::default(), TaskTracker::new(), CancellationToken::new());
    let settings = ListenerSettings { connections: 4, limits: Live::default(), proxies: Vec::new() };
    let lifecycle =
        Lifecycle { workers: Workers::present(), tracker, drain: drain.clone(), cancel: CancellationToken::new() };
    let (arrive, arrivals) = mpsc::unbounded_channel();
    let service = Router::new().fallback(answer).with_state(Arc::clone(&requests));
    let served = serve(Arrivals(arrivals), service, settings, lifecycle);
    let client = async {
        let (mut stream, other) = duplex(1 << 16);
        arrive.send(other).expect("a listener");
        let mut read = Vec::new();
        let (mut reader, mut writer) = tokio::io::split(&mut stream);
        let write = async {
            for piece in pieces(bytes, cuts) {
                // the listener may have closed the connection already
                if writer.write_all(piece).await.is_err() {
                    break;
                }
                match ending {
                    Ending::Lingers => sleep(Duration::from_secs(1)).await,
                    _ => tokio::task::yield_now().await,
                }
            }
            if ending == Ending::Finishes {
                let _ = writer.shutdown().await;
            }
        };
        if ending == Ending::Breaks {
            write.await;
        } else {
            let _ = tokio::join!(reader.read_to_end(&mut read), write);
        }
        drop(stream);
        drain.cancel();
        read
    };
    let (read, ()) = tokio::join!(client, served);
    let seen = std::mem::take(&mut *requests.lock().unwrap_or_else(PoisonError::into_inner));
    (seen, read)
}

/// Notes the request, and answers with its number.
async fn answer(State(requests): State<Requests>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let is_early = is_early(&head.uri);
    let seen = Seen {
        method: head.method.to_string(),
        target: head.uri.to_string(),
        headers: of_request(&head.headers),
        body: if is_early { Content::Unread } else { Content::Broken },
    };
    let number = {
        let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(seen);
        requests.len() - 1
    };
    let mut status = StatusCode::OK;
    if !is_early {
        match to_bytes(body, usize::MAX).await {
            Ok(body) => {
                let mut requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
                requests[number].body = Content::Whole(body.to_vec());
            }
            Err(_) => status = StatusCode::BAD_REQUEST,
        }
    }
    Response::builder().status(status).header(ANSWERS, number).body("seen".into()).expect("a response")
}

fn is_early(target: &Uri) -> bool {
    target.path().starts_with("/early")
}

fn of_request(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    ordered(headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())))
}

fn ordered(headers: impl Iterator<Item = (String, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    let mut headers: Vec<_> =
        headers.filter(|(name, _)| !matches!(name.as_str(), "content-length" | "transfer-encoding")).collect();
    headers.sort_by(|a, b| a.0.cmp(&b.0));
    headers
}

/// The client waited: what the service got, and what it answered, is known.
fn exact((seen, answers): (&[Seen], &[u8]), (expected, last): (&[Seen], Last), what: &dyn Fn() -> String) {
    let compared = if last == Last::Unknown { &seen[..seen.len().min(expected.len())] } else { seen };
    assert_eq!(compared, expected, "{}", what());
    let refusals = read_answers(answers, seen, what);
    match last {
        Last::Open | Last::Closed => assert_eq!(refusals, 0, "{}", what()),
        Last::Refused => assert_eq!(refusals, 1, "{}", what()),
        Last::Unfinished if expected.is_empty() => assert_eq!(refusals, 1, "{}", what()),
        Last::Unfinished | Last::Unknown => assert!(refusals <= 1, "{}", what()),
    }
}

/// Reads the responses: one for each request in order, and then at most one that refuses. Returns how many of the latter.
fn read_answers(answers: &[u8], seen: &[Seen], what: &dyn Fn() -> String) -> usize {
    let (mut rest, mut requests, mut refusals) = (answers, seen.iter().enumerate(), 0);
    while !rest.is_empty() {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        let Ok(httparse::Status::Complete(length)) = response.parse(rest) else {
            panic!("{:?} is no response: {}", String::from_utf8_lossy(rest), what());
        };
        let header = |name: &str| {
            let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
            found.and_then(|header| std::str::from_utf8(header.value).ok()?.parse::<usize>().ok())
        };
        rest = &rest[length..];
        let status = response.code.unwrap_or_default();
        if status == 100 {
            continue;
        }
        assert_eq!(refusals, 0, "{status} after a refusal: {}", what());
        let answered = requests.next();
        match (header(ANSWERS), answered) {
            (Some(number), Some((next, _))) => assert_eq!(number, next, "{}", what()),
            // a body that comes too slowly
            (None, Some((_, request))) if request.body == Content::Broken => assert_eq!(status, 408, "{}", what()),
            (None, None) => {
                assert!((400..500).contains(&status), "{status}: {}", what());
                refusals += 1;
            }
            (number, request) => panic!("{status} with {number:?} for {request:?}: {}", what()),
        }
        if answered.is_none_or(|(_, request)| request.method != "HEAD") {
            let body = header("content-length").unwrap_or_default();
            assert!(body <= rest.len(), "an answer breaks off: {}", what());
            rest = &rest[body..];
        }
    }
    refusals
}

/// The requests in `bytes` by RFC 9112, and what follows them.
fn plain(bytes: &[u8]) -> (Vec<Seen>, Last) {
    let (mut rest, mut requests) = (bytes, Vec::new());
    let last = loop {
        match next(rest) {
            Next::End(last) => break last,
            Next::Request(request, Ok(length)) => {
                requests.push(request);
                rest = &rest[length..];
            }
            Next::Request(request, Err(last)) => {
                requests.push(request);
                break last;
            }
        }
    };
    (requests, last)
}

/// What is at the beginning of some bytes.
enum Next {
    /// A request, and how many bytes it takes, or what follows it if no further one is read.
    Request(Seen, Result<usize, Last>),
    End(Last),
}

fn next(bytes: &[u8]) -> Next {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let parsed = request.parse(bytes);
    if bytes.is_empty() {
        return Next::End(Last::Open);
    }
    // empty lines before a request are ignored; who begins to speak HTTP/2 may be refused without an answer
    if bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
        || bytes.windows(PREFACE.len()).any(|part| part == PREFACE)
    {
        return Next::End(Last::Unknown);
    }
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        // what came after a part is read only when it has an end
        Err(_) if bytes.windows(2).any(|two| two == b"\n\n" || two == b"\n\r") => return Next::End(Last::Refused),
        Ok(httparse::Status::Partial) | Err(_) => return Next::End(Last::Unfinished),
    };
    let head = &bytes[..length];
    // a line feed alone ends a line only if the whole head comes at once
    if head.windows(2).any(|two| two[1] == b'\n' && two[0] != b'\r') || head[0] == b'\n' {
        return Next::End(Last::Unknown);
    }
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Next::End(Last::Refused);
    };
    let (Ok(method), Ok(target)) = (Method::from_bytes(method.as_bytes()), target.parse::<Uri>()) else {
        return Next::End(Last::Refused);
    };
    if method == Method::CONNECT {
        return Next::End(Last::Unknown);
    }
    let headers: Vec<(String, Vec<u8>)> =
        request.headers.iter().map(|header| (header.name.to_ascii_lowercase(), header.value.to_vec())).collect();
    let Some(framing) = framing(&headers, version) else { return Next::End(Last::Refused) };
    let is_early = is_early(&target);
    let seen = |body| Seen {
        method: method.to_string(),
        target: target.to_string(),
        headers: ordered(headers.clone().into_iter()),
        body: if is_early { Content::Unread } else { body },
    };
    let mut stays_open = !framing.has_two_lengths && stays_open(&headers, version);
    let rest = &bytes[length..];
    let Some((body, taken)) = content(rest, &framing.body) else { return Next::End(Last::Unknown) };
    if is_early && !matches!(framing.body, Body::Length(0)) {
        let expects: Vec<&[u8]> = values(&headers, "expect").collect();
        if expects.len() > 1 {
            return Next::End(Last::Unknown);
        }
        let awaits = expects.iter().any(|value| value.eq_ignore_ascii_case(b"100-continue"));
        stays_open &= !awaits && matches!(framing.body, Body::Length(size) if size <= MAX_DISCARDED);
    }
    let after = taken.filter(|_| stays_open).map(|taken| length + taken).ok_or(Last::Closed);
    Next::Request(seen(body), after)
}

/// The body at the beginning of some bytes, and how many it takes if it is whole; `None` if it has trailers, for which a
/// service may have bounds and rules of its own.
fn content(bytes: &[u8], body: &Body) -> Option<(Content, Option<usize>)> {
    Some(match body {
        Body::Length(size) => match usize::try_from(*size).ok().and_then(|size| bytes.get(..size)) {
            Some(body) => (Content::Whole(body.to_vec()), Some(body.len())),
            None => (Content::Broken, None),
        },
        Body::Chunks => match chunks(bytes) {
            Some((_, _, true)) => return None,
            Some((body, length, false)) => (Content::Whole(body), Some(length)),
            None => (Content::Broken, None),
        },
    })
}

/// How the body of a request ends.
struct Framing {
    body: Body,
    has_two_lengths: bool,
}

enum Body {
    Length(u64),
    Chunks,
}

/// RFC 9112 6.3; `None` if the request is invalid. Stricter where the listener is: a length is one number, however often, also
/// before a coding that takes its place.
fn framing(headers: &[(String, Vec<u8>)], version: u8) -> Option<Framing> {
    let number = |value: &[u8]| {
        let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse::<u64>().ok().filter(|length| *length <= u64::MAX - 2)
    };
    let (mut coding, mut length, mut has_length) = (None, None, false);
    for (name, value) in headers {
        match name.as_str() {
            "transfer-encoding" => coding = Some(value),
            "content-length" => {
                has_length = true;
                if coding.is_none() && length.replace(number(value)?).is_some_and(|before| length != Some(before)) {
                    return None;
                }
            }
            _ => {}
        }
    }
    let Some(coding) = coding else {
        return Some(Framing { body: Body::Length(length.unwrap_or_default()), has_two_lengths: false });
    };
    let last = coding.rsplit(|byte| *byte == b',').next().unwrap_or_default();
    let is_chunked = version == 1 && last.trim_ascii().eq_ignore_ascii_case(b"chunked");
    is_chunked.then_some(Framing { body: Body::Chunks, has_two_lengths: has_length })
}

fn values<'a>(headers: &'a [(String, Vec<u8>)], name: &'static str) -> impl Iterator<Item = &'a [u8]> + Clone {
    headers.iter().filter(move |(held, _)| held == name).map(|(_, value)| value.as_slice())
}

/// RFC 9112 9.3.
fn stays_open(headers: &[(String, Vec<u8>)], version: u8) -> bool {
    let has = |option: &str| {
        values(headers, "connection")
            .flat_map(|value| value.split(|byte| *byte == b','))
            .any(|held| held.trim_ascii().eq_ignore_ascii_case(option.as_bytes()))
    };
    !has("close") && (version == 1 || has("keep-alive"))
}
