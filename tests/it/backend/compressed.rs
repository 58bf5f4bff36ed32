//! Servers and proxies that compress their answers although nobody asks for it.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use futures_util::{StreamExt as _, stream};

use super::scripted_servers::{client, failure, gateway, started, text, tool};
use crate::kit::peer::{Body, Peer, Response, Seen, event, named, text_of, typed};

/// The parts, each of which can be read before the next one is there.
fn gzipped(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut chunks = Vec::new();
    for part in parts {
        encoder.write_all(part).unwrap();
        encoder.flush().unwrap();
        chunks.push(std::mem::take(encoder.get_mut()));
    }
    chunks.push(encoder.finish().unwrap());
    chunks
}

fn coded(coding: &str, mut response: Response) -> Response {
    response.headers_mut().insert("content-encoding", coding.parse().unwrap());
    response
}

fn whole(kind: &str, bytes: Vec<u8>) -> Response {
    typed(kind, Body::Whole(bytes.into()))
}

async fn of_tools(answer: impl Fn(&Seen) -> Response + Send + Sync + 'static) -> Peer {
    Peer::start(move |seen| (seen.method() == "tools/call").then(|| answer(seen))).await
}

#[tokio::test]
async fn a_compressed_answer_is_read_though_requests_ask_for_none() {
    let peer = of_tools(|seen| {
        let answer = seen.result(&text_of("read")).to_string();
        coded("gzip", whole("application/json", gzipped(&[answer.as_bytes()]).concat()))
    })
    .await;
    let (_supervisor, server) = started(peer.spec()).await;
    for _ in 0..2 {
        assert_eq!(text(tool(&server, client("c", "{}"), &named("x"))).await, "read");
    }
    assert!(peer.seen().iter().all(|seen| seen.header("accept-encoding") == Some("identity")));
}

#[tokio::test]
async fn the_events_of_a_compressed_stream_are_read_as_they_come() {
    let peer = of_tools(|seen| {
        let answer = event(&seen.result(&text_of("read")));
        let chunks = gzipped(&[b": hello\n\n", answer.as_bytes()]);
        // the stream never ends
        let open = stream::iter(chunks.into_iter().take(2).map(Ok)).chain(stream::pending());
        coded("gzip", typed("text/event-stream", Body::from_stream(open)))
    })
    .await;
    let (_supervisor, server) = started(peer.spec()).await;
    assert_eq!(text(tool(&server, client("c", "{}"), &named("x"))).await, "read");
}

#[tokio::test]
async fn what_a_small_answer_becomes_is_bounded_and_other_codings_are_named() {
    let peer = of_tools(|seen| match seen.body["params"]["name"].as_str() {
        // 20 kB become 20 MB
        Some("bomb") => coded("gzip", whole("application/json", gzipped(&[&vec![b' '; 20 << 20]]).concat())),
        _ => coded("compress", whole("application/json", b"whatever".to_vec())),
    })
    .await;
    let (_supervisor, server) = started(peer.spec()).await;
    let error = failure(tool(&server, gateway(), &named("bomb"))).await;
    assert!(error.message().contains("larger than"), "{}", error.message());
    let error = failure(tool(&server, gateway(), &named("unknown"))).await;
    assert!(error.message().contains("`Content-Encoding: compress`"), "{}", error.message());
}
