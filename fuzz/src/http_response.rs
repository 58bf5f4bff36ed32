//! Responses of a server over HTTP/1 against `httparse` and the framing rules of RFC 9112 6.3, over a real connection.
//! Input: a byte that selects how the bytes are split, and the bytes of one response.
//!
//! Oracles: the gateway reads the status, the headers and the body that the plain reader reads; what that one refuses, it
//! refuses; a connection with a response of two lengths is not used again.

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use lockkeeper::fuzzing::HttpClient;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
    time::timeout,
};

use super::input::{Dice, pieces};

/// The most that a body may have.
const MAX_BODY: usize = 1 << 16;
/// Longer inputs are for the growth oracle.
const MAX_INPUT: usize = 1 << 14;
/// Far more than any exchange on this machine takes.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Headers that the client reads at most.
const MAX_HEADERS: usize = 100;

/// The answer to a second request.
const LAST: &[u8] = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";

/// How a response is to be read.
#[derive(Debug, PartialEq)]
enum Expected {
    /// Not at all.
    Refused,
    /// The head alone: the body breaks off, or is broken.
    Head(u16),
    /// All of it; whether the connection may be used again.
    Whole(u16, Vec<u8>, bool),
    /// All of it, or the head alone: a client may have bounds and rules of its own for trailers.
    Trailers(u16, Vec<u8>),
}

/// How the body ends.
enum Framing {
    None,
    Length(u64),
    Chunks,
    Close,
}

thread_local! {
    static SCENE: RefCell<Option<(Runtime, TcpListener, HttpClient)>> = const { RefCell::new(None) };
}

/// Checks one input.
pub fn run(data: &[u8]) {
    let mut dice = Dice::new(data);
    let seed = dice.byte();
    let bytes = dice.rest();
    if bytes.len() > MAX_INPUT {
        return;
    }
    let expected = plain(bytes);
    on_scene(|runtime, listener, client| {
        let exchanged = runtime.block_on(timeout(TIMEOUT, exchange(listener, client, (bytes, seed), &expected)));
        assert!(exchanged.is_ok(), "no end of {bytes:?}, which is {expected:?}");
    });
}

/// The length of the body of a response of at most `most` bytes that the gateway reads; `None` if it reads none.
pub fn length_of(bytes: &[u8], most: usize) -> Option<usize> {
    on_scene(|runtime, listener, client| {
        runtime.block_on(async {
            let url = url(listener);
            let serve = async {
                let mut peer = accept(listener).await;
                // the client may have closed the connection already
                let _ = peer.write_all(bytes).await;
                let _ = peer.shutdown().await;
            };
            let (answer, ()) = tokio::join!(client.send(request(&url), most), serve);
            answer.ok()?.into_body().ok().map(|body| body.len())
        })
    })
}

fn on_scene<T>(play: impl FnOnce(&Runtime, &TcpListener, &HttpClient) -> T) -> T {
    SCENE.with_borrow_mut(|scene| {
        let (runtime, listener, client) = scene.get_or_insert_with(|| {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            let inside = runtime.enter();
            let client = HttpClient::new().expect("a client");
            drop(inside);
            let listener = runtime.block_on(TcpListener::bind("0.0.0.0:0")).expect("a port");
            (runtime, listener, client)
        });
        let _inside = runtime.enter();
        play(runtime, listener, client)
    })
}

/// Responses like these.
pub fn seeds() -> Vec<Vec<u8>> {
    let responses = [
        "0HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
        "1HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n0\r\nx: y\r\n\r\n",
        "2HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "3HTTP/1.0 200 OK\r\n\r\n{}",
        "4HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        "5HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "6HTTP/1.1 204 No Content\r\nkeep-alive: timeout=5\r\n\r\n",
        "7HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n",
    ];
    responses.into_iter().map(|response| response.as_bytes().to_vec()).collect()
}

async fn exchange(listener: &TcpListener, client: &HttpClient, (bytes, seed): (&[u8], u8), expected: &Expected) {
    let url = url(listener);
    let stays_open = matches!(expected, Expected::Whole(.., true));
    let serve = async {
        let mut peer = accept(listener).await;
        for piece in pieces(bytes, u64::from(seed)).into_iter().take(64) {
            // the client may have closed the connection already
            let _ = peer.write_all(piece).await;
            tokio::task::yield_now().await;
        }
        let rest: usize = pieces(bytes, u64::from(seed)).into_iter().take(64).map(<[u8]>::len).sum();
        let _ = peer.write_all(&bytes[rest..]).await;
        if !stays_open {
            let _ = peer.shutdown().await;
        }
        peer
    };
    let (answer, peer) = tokio::join!(client.send(request(&url), MAX_BODY), serve);
    match (&answer, expected) {
        (Ok(response), Expected::Head(status)) => {
            assert_eq!(response.status().as_u16(), *status, "{bytes:?}");
            assert!(response.body().is_err(), "{:?} of {bytes:?}", response.body());
        }
        // the end of the body may come with the head
        (Err(_), Expected::Refused | Expected::Head(_) | Expected::Trailers(..)) => {}
        (Ok(response), Expected::Trailers(status, body)) => {
            assert_eq!(response.status().as_u16(), *status, "{bytes:?}");
            assert!(response.body().as_ref().is_ok_and(|read| *read == body) || response.body().is_err(), "{bytes:?}");
        }
        (Ok(response), Expected::Whole(status, body, _)) => {
            assert_eq!(response.status().as_u16(), *status, "{bytes:?}");
            assert_eq!(response.body().as_deref(), Ok(body.as_slice()), "{bytes:?}");
        }
        _ => panic!("{answer:?}, not {expected:?}, of {bytes:?}"),
    }
    if matches!(expected, Expected::Whole(..)) {
        again(listener, client, peer, (&url, bytes)).await;
    }
}

/// A second request, which goes over the first connection only if that may be used again.
async fn again(listener: &TcpListener, client: &HttpClient, mut first: TcpStream, (url, bytes): (&str, &[u8])) {
    let serve = async {
        let other = tokio::select! {
            biased;
            is_same = read_request(&mut first) => if is_same { None } else { Some(listener.accept().await) },
            other = listener.accept() => Some(other),
        };
        let is_same = other.is_none();
        if let Some(other) = other {
            (first, _) = other.expect("a connection");
            read_request(&mut first).await;
        }
        let _ = first.write_all(LAST).await;
        is_same
    };
    let (answer, is_same) = tokio::join!(client.send(request(url), MAX_BODY), serve);
    let status = answer.map(|response| response.status());
    assert_eq!(status, Ok(StatusCode::NO_CONTENT), "after {bytes:?}");
    let two_lengths = has_two_lengths(bytes);
    assert!(!(is_same && two_lengths), "a second request after {bytes:?}");
}

/// An address of this machine that no connection was kept for.
fn url(listener: &TcpListener) -> String {
    thread_local!(static COUNT: Cell<u32> = const { Cell::new(0) });
    let count = COUNT.replace(COUNT.get().wrapping_add(1)) % (1 << 23);
    let [_, a, b, c] = (count + 1).to_be_bytes();
    format!("http://127.{a}.{b}.{c}:{}/", listener.local_addr().expect("an address").port())
}

fn request(url: &str) -> Request<Full<Bytes>> {
    Request::post(url).header("host", "x").body(Full::new(Bytes::from_static(b"{}"))).expect("a request")
}

/// A connection whose request was read.
async fn accept(listener: &TcpListener) -> TcpStream {
    let (mut peer, _) = listener.accept().await.expect("a connection");
    read_request(&mut peer).await;
    peer
}

/// Reads a request, and returns false if none comes.
async fn read_request(peer: &mut TcpStream) -> bool {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n{}") {
        let mut bytes = [0; 1024];
        match peer.read(&mut bytes).await {
            Ok(count) if count > 0 => read.extend_from_slice(&bytes[..count]),
            _ => return false,
        }
    }
    true
}

/// Status, minor version, headers, and the place where they end.
type ResponseHead = (u16, u8, Vec<(String, Vec<u8>)>, usize);

/// The final head in `bytes`, past those of interim responses.
fn head(bytes: &[u8]) -> Option<ResponseHead> {
    let mut start = 0;
    loop {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(length) = response.parse(&bytes[start..]).ok()? else { return None };
        let (status, version) = (response.code?, response.version?);
        start += length;
        if matches!(status, 100 | 102..=199) {
            continue;
        }
        let headers = response.headers.iter().map(|header| (header.name.to_ascii_lowercase(), header.value.to_vec()));
        return Some((status, version, headers.collect(), start));
    }
}

fn has_two_lengths(bytes: &[u8]) -> bool {
    let Some((_, _, headers, _)) = head(bytes) else { return false };
    let has = |name: &str| headers.iter().any(|(held, _)| held == name);
    has("transfer-encoding") && has("content-length")
}

/// RFC 9112 6.3, stricter where the gateway is: no transfer coding but `chunked`, no change of the protocol.
fn plain(bytes: &[u8]) -> Expected {
    let Some((status, version, headers, start)) = head(bytes) else { return Expected::Refused };
    let values =
        |name: &'static str| headers.iter().filter(move |(held, _)| held == name).map(|(_, value)| value.as_slice());
    let codings: Vec<&[u8]> = values("transfer-encoding").collect();
    let is_chunked = matches!(codings.as_slice(), [only] if only.trim_ascii().eq_ignore_ascii_case(b"chunked"));
    if status < 200 || !codings.is_empty() && !is_chunked || status > 999 {
        return Expected::Refused;
    }
    let lengths: Option<Vec<u64>> = values("content-length")
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(|value| {
            let digits = std::str::from_utf8(value.trim_ascii()).ok()?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
        })
        .collect();
    let framing = match (status, is_chunked, lengths) {
        (204 | 304, ..) => Framing::None,
        // chunks are of HTTP/1.1
        (_, true, _) if version == 0 => return Expected::Refused,
        (_, true, _) => Framing::Chunks,
        (_, false, None) => return Expected::Refused,
        (_, false, Some(lengths)) => match lengths.as_slice() {
            [] => Framing::Close,
            [first, others @ ..] if others.iter().all(|other| other == first) => Framing::Length(*first),
            _ => return Expected::Refused,
        },
    };
    let rest = &bytes[start..];
    let (body, length) = match framing {
        Framing::None => (Vec::new(), 0),
        Framing::Close => (rest.to_vec(), rest.len()),
        Framing::Length(length) => match usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
            Some(body) => (body.to_vec(), body.len()),
            None => return Expected::Head(status),
        },
        Framing::Chunks => match chunks(rest) {
            Some((body, _, true)) if body.len() <= MAX_BODY => return Expected::Trailers(status, body),
            Some((body, length, _)) => (body, length),
            None => return Expected::Head(status),
        },
    };
    if body.len() > MAX_BODY {
        return Expected::Head(status);
    }
    let closes = matches!(framing, Framing::Close) || length < rest.len();
    Expected::Whole(status, body, !closes)
}

/// The content of chunks, how many bytes they take, and whether trailers follow (RFC 9112 7.1).
pub(super) fn chunks(bytes: &[u8]) -> Option<(Vec<u8>, usize, bool)> {
    let (mut body, mut at) = (Vec::new(), 0);
    let line = |at: usize| -> Option<(&[u8], usize)> {
        let end = bytes[at..].windows(2).position(|two| two == b"\r\n")?;
        Some((&bytes[at..at + end], at + end + 2))
    };
    loop {
        let (size, after) = line(at)?;
        if size.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
            return None;
        }
        let digits = size.split(|byte| *byte == b';').next().unwrap_or_default();
        let digits = std::str::from_utf8(digits).ok()?.trim_end_matches([' ', '\t']);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let size = usize::from_str_radix(digits, 16).ok()?;
        at = after;
        if size == 0 {
            let (first, after) = line(at)?;
            if first.is_empty() {
                return Some((body, after, false));
            }
            return Some((body, at, true));
        }
        body.extend_from_slice(bytes.get(at..at.checked_add(size)?)?);
        at += size;
        if bytes.get(at..at + 2)? != b"\r\n" {
            return None;
        }
        at += 2;
    }
}
