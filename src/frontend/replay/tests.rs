//! Buffers of both kinds: sent, replayed, dropped and closed.

use bytes::Bytes;
use futures_util::FutureExt as _;

use super::*;
use crate::mcp::IndexedJson;

fn standalone(waiting: usize, streams: usize) -> Arc<ReplayBuffer> {
    let replay = Bounds { messages: 2, bytes: 1_000 };
    let waiting = Bounds { messages: waiting, bytes: usize::MAX };
    ReplayBuffer::new(
        Limits::Standalone { waiting, streams, replay, overflow: Overflow::CloseStream },
        Account::unbounded(),
    )
}

fn message(taken: Option<(u64, Message)>) -> Option<Message> {
    taken.map(|(_, message)| message)
}

fn told(method: Method, params: &'static str) -> Message {
    Message::Notification { method, params: Bytes::from_static(params.as_bytes()).into() }
}

fn log(params: &'static str) -> Message {
    told(Method::LoggingMessage, params)
}

#[tokio::test]
async fn repeated_notifications_are_merged() {
    let buffer = standalone(8, 8);
    let updated = |uri| told(Method::ResourceUpdated, uri);
    for message in [updated("1"), told(Method::ToolsListChanged, ""), updated("2"), updated("1"), log("x"), log("x")] {
        buffer.push(message);
    }
    let mut stream = buffer.attach();
    for expected in [told(Method::ToolsListChanged, ""), updated("2"), updated("1"), log("x"), log("x")] {
        assert_eq!(message(stream.next().await), Some(expected));
    }
    assert_eq!(stream.next().now_or_never(), None);
}

#[tokio::test]
async fn the_newest_stream_gets_the_messages_and_the_previous_one_after_it_closes() {
    let buffer = standalone(8, 8);
    let (mut old, mut new) = (buffer.attach(), buffer.attach());
    buffer.push(log("1"));
    assert_eq!(old.next().now_or_never(), None);
    assert_eq!(message(new.next().await), Some(log("1")));
    drop(new);
    buffer.push(log("2"));
    assert_eq!(message(old.next().await), Some(log("2")));
}

#[tokio::test]
async fn a_stream_whose_reader_is_too_slow_is_closed() {
    let buffer = standalone(2, 8);
    let mut slow = buffer.attach();
    for params in ["1", "2", "3"] {
        buffer.push(log(params));
    }
    assert_eq!(slow.next().await, None);
    assert_eq!(message(buffer.attach().next().await), Some(log("2")));
}

#[tokio::test]
async fn streams_are_bounded() {
    let buffer = standalone(2, 2);
    let mut streams = [buffer.attach(), buffer.attach(), buffer.attach()];
    assert_eq!(streams[0].next().await, None);
    assert_eq!(buffer.open_streams(), 2);
}

#[tokio::test]
async fn a_resumed_stream_repeats_its_own_messages() {
    let buffer = standalone(8, 8);
    let mut one = buffer.attach();
    buffer.push(log("1"));
    let (first, _) = one.next().await.unwrap();
    buffer.push(log("2"));
    one.next().await;
    let mut two = buffer.attach();
    buffer.push(log("3"));
    assert_eq!(message(two.next().await), Some(log("3")));
    let mut again = buffer.resume(one.stream(), first).unwrap();
    assert_eq!(one.next().await, None, "the connection before is closed");
    assert_eq!(message(again.next().await), Some(log("2")));
    assert_eq!(again.next().now_or_never(), None, "the other stream took the rest");
    buffer.push(log("4"));
    assert_eq!(message(again.next().await), Some(log("4")));
    let mut two_again = buffer.resume(two.stream(), 0).unwrap();
    assert_eq!(message(two_again.next().await), Some(log("3")));
    assert!(buffer.resume(9, 0).is_none() && buffer.resume(0, 0).is_none());
}

#[tokio::test]
async fn the_only_stream_of_a_session_is_closed_only_if_nothing_can_be_dropped() {
    let replay = Bounds { messages: 0, bytes: 0 };
    let waiting = Bounds { messages: 2, bytes: usize::MAX };
    let limits = Limits::Standalone { waiting, streams: 1, replay, overflow: Overflow::DropFirst };
    let buffer = ReplayBuffer::new(limits, Account::unbounded());
    let mut stream = buffer.attach();
    let question = question();
    for message in [question.clone(), log("1"), log("2")] {
        buffer.push(message);
    }
    assert_eq!(message(stream.next().await), Some(question.clone()));
    assert_eq!(message(stream.next().await), Some(log("2")));
    for _ in 0..3 {
        buffer.push(question.clone());
    }
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn dispensable_messages_are_dropped_before_a_server_request() {
    let buffer = standalone(2, 8);
    let question = question();
    for message in [question.clone(), log("1"), log("2")] {
        buffer.push(message);
    }
    let mut stream = buffer.attach();
    assert_eq!(message(stream.next().await), Some(question));
    assert_eq!(message(stream.next().await), Some(log("2")));
}

/// The answer to one call, with an open stream.
fn answer(messages: usize, bytes: usize) -> (Arc<ReplayBuffer>, ReplayReader) {
    let buffer = ReplayBuffer::new(Limits::Call(Bounds { messages, bytes }), Account::unbounded());
    let reader = buffer.attach();
    (buffer, reader)
}

/// A reader that resumes the answer after a message.
fn again(answer: &Arc<ReplayBuffer>, after: u64) -> ReplayReader {
    answer.resume(1, after).unwrap()
}

fn question() -> Message {
    Message::Request { id: RequestId::number(1), method: Method::RootsList, params: IndexedJson::default() }
}

#[tokio::test]
async fn a_resuming_reader_gets_the_rest_and_no_message_twice() {
    let (answer, mut first) = answer(3, 1_000);
    answer.push(log("1"));
    answer.push(log("2"));
    assert_eq!(first.next().await, Some((1, log("1"))));
    let mut second = again(&answer, 1);
    assert_eq!(first.next().await, None, "another reads now");
    assert_eq!(second.next().await, Some((2, log("2"))));
    assert_eq!(second.next().now_or_never(), None);
    answer.push(log("3"));
    answer.finish();
    assert_eq!(second.next().await, Some((3, log("3"))));
    assert_eq!(second.next().await, None);
    assert_eq!(again(&answer, 2).next().await, Some((3, log("3"))));
}

#[tokio::test]
async fn a_full_buffer_drops_read_messages_first_and_keeps_server_requests() {
    let (answer, mut reader) = answer(3, 1_000);
    for text in ["1", "2"] {
        answer.push(log(text));
    }
    reader.next().await;
    answer.push(question());
    answer.push(question());
    assert_eq!(again(&answer, 0).next().await, Some((2, log("2"))));
    for _ in 0..3 {
        answer.push(question());
    }
    let mut reader = again(&answer, 2);
    for number in 3..=7 {
        assert_eq!(reader.next().await.map(|(number, _)| number), Some(number));
    }
}

#[tokio::test]
async fn bytes_are_limited_too() {
    let (answer, _reader) = answer(100, 10);
    for _ in 0..4 {
        answer.push(log("123456"));
    }
    assert!(answer.bytes() <= 10);
    assert_eq!(again(&answer, 0).next().await, Some((4, log("123456"))));
}

#[tokio::test]
async fn messages_that_did_not_arrive_before_a_resumption_do_not_count_as_read() {
    let (answer, mut reader) = answer(3, 1_000);
    answer.push(question());
    for text in ["2", "3"] {
        answer.push(log(text));
    }
    while reader.next().now_or_never().flatten().is_some() {}
    let mut again = again(&answer, 0);
    answer.push(log("4"));
    assert_eq!(again.next().await, Some((1, question())), "it was written, and the connection broke");
    assert_eq!(again.next().await, Some((3, log("3"))));
}

#[tokio::test]
async fn a_reader_that_is_too_slow_is_disconnected_and_may_resume() {
    let (answer, mut slow) = answer(3, 1_000);
    let told =
        |number| Message::Notification { method: Method::ToolsListChanged, params: Bytes::from(vec![number]).into() };
    answer.push(question());
    for number in 0..50 {
        answer.push(told(number));
    }
    assert_eq!(slow.next().await, None);
    let mut again = again(&answer, 0);
    assert_eq!(again.next().await, Some((1, question())));
    assert_eq!(again.next().await, Some((50, told(48))));
    assert_eq!(again.next().await, Some((51, told(49))));
    answer.push(log("x"));
    assert_eq!(again.next().await, Some((52, log("x"))), "who came back is served");
}

#[tokio::test]
async fn withdrawn_server_requests_do_not_accumulate() {
    let (answer, _reader) = answer(3, 1_000);
    for number in 0..50 {
        let id = RequestId::number(number);
        answer.push(Message::Request { id, method: Method::RootsList, params: IndexedJson::default() });
        if number > 0 {
            let params = Bytes::from(format!(r#"{{"requestId":{number}}}"#));
            answer.push(Message::Notification { method: Method::Cancelled, params: params.into() });
        }
    }
    answer.push(Message::result(RequestId::number(99), Bytes::from_static(b"{}")));
    answer.finish();
    let (mut reader, mut said) = (again(&answer, 0), Vec::new());
    while let Some((_, message)) = reader.next().await {
        said.push(message);
    }
    assert!(said.len() <= 3, "{said:?}");
    let open = Message::Request { id: RequestId::number(0), method: Method::RootsList, params: IndexedJson::default() };
    assert_eq!(said.first(), Some(&open), "an open question stays");
    assert!(matches!(said.last(), Some(Message::Response { .. })), "and so does the answer");
}

#[tokio::test]
async fn a_single_large_message_disconnects_no_reader() {
    let (answer, mut reader) = answer(9, 10);
    let large = Message::Notification { method: Method::ToolsListChanged, params: Bytes::from(vec![b' '; 99]).into() };
    answer.push(large.clone());
    assert_eq!(reader.next().await, Some((1, large)));
    answer.push(question());
    assert_eq!(reader.next().await, Some((2, question())));
}
