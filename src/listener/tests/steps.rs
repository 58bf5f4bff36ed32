//! Timeouts of each step of a connection, and its state after an early answer.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::{Instant, sleep, timeout},
};

use super::{Client, Server};

#[tokio::test(start_paused = true)]
async fn a_head_that_trickles_is_given_up_after_thirty_seconds() {
    let server = Server::start(10, 10);
    let mut client = server.connect("192.0.2.1");
    let start = Instant::now();
    client.send("GET / HTTP/1.1\r\nx: ").await;
    let trickled = loop {
        let mut byte = [0];
        match timeout(Duration::from_secs(1), client.stream.read(&mut byte)).await {
            Ok(_) => break start.elapsed(),
            Err(_) => client.send("a").await,
        }
    };
    assert_eq!(trickled.as_secs(), 30);
    assert!(client.rest().await.contains("408 Request Timeout"));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_says_nothing_is_closed_after_thirty_seconds_and_an_idle_one_after_eleven_minutes() {
    let server = Server::start(10, 10);
    let start = Instant::now();
    let mut silent = server.connect("192.0.2.1");
    assert_eq!((silent.rest().await.as_str(), start.elapsed().as_secs()), ("", 30));
    let mut idle = server.connect("192.0.2.1");
    idle.get("/").await;
    idle.until("hello").await;
    // as long as a balancer of Google keeps it
    sleep(Duration::from_mins(10)).await;
    idle.get("/").await;
    idle.until("hello").await;
    let start = Instant::now();
    assert_eq!((idle.rest().await.as_str(), start.elapsed().as_secs()), ("", 660));
}

#[tokio::test(start_paused = true)]
async fn the_next_head_has_thirty_seconds_from_its_first_byte() {
    let server = Server::start(10, 10);
    let mut client = server.connect("192.0.2.1");
    client.get("/").await;
    client.until("hello").await;
    sleep(Duration::from_secs(200)).await;
    let start = Instant::now();
    client.send("G").await;
    assert!(client.rest().await.contains("408 Request Timeout"));
    assert_eq!(start.elapsed().as_secs(), 30);
}

/// Sends a body of `length` bytes at `rate` bytes per second: the answer, and when it came.
async fn upload(length: usize, rate: usize) -> (String, u64) {
    let server = Server::start(10, 10);
    let Client { stream, .. } = server.connect("192.0.2.1");
    let (mut reader, mut writer) = tokio::io::split(stream);
    let start = Instant::now();
    let writing = async {
        let head = format!("POST /length HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
        writer.write_all(head.as_bytes()).await.unwrap();
        let mut left = length;
        while left > 0 && rate > 0 {
            sleep(Duration::from_secs(1)).await;
            let next = left.min(rate);
            if writer.write_all(&vec![b'x'; next]).await.is_err() {
                break;
            }
            left -= next;
        }
        std::future::pending::<()>().await;
    };
    let mut text = vec![0; 1024];
    let read = tokio::select! {
        read = reader.read(&mut text) => read.unwrap(),
        () = writing => 0,
    };
    text.truncate(read);
    (String::from_utf8(text).unwrap(), start.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_answered_408_and_a_slow_steady_one_is_read_whole() {
    let (answer, seconds) = upload(1000, 0).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("connection: close"), "{answer}");
    assert_eq!(seconds, 30);
    let (answer, seconds) = upload(1 << 20, 100).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert_eq!(seconds, 60);
    let (answer, seconds) = upload(16 << 20, 2048).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("16777216"), "{answer}");
    assert_eq!(seconds, 8192);
}

#[tokio::test(start_paused = true)]
async fn a_head_and_its_first_event_go_in_one_write() {
    let server = Server::start(1, 1);
    let mut client = server.connect("192.0.2.1");
    client.get("/stream").await;
    client.until("data: 0\n\n").await;
    assert_eq!(client.writes.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn after_an_early_answer_a_late_body_is_discarded_and_the_connection_goes_on() {
    let server = Server::start(10, 10);
    let mut client = server.connect("192.0.2.1");
    for _ in 0..3 {
        client.send("POST /refuse HTTP/1.1\r\nhost: h\r\ncontent-length: 200000\r\n\r\n").await;
        let answer = client.until("who are you?").await;
        assert!(answer.starts_with("HTTP/1.1 401") && !answer.contains("connection: close"), "{answer}");
        sleep(Duration::from_secs(2)).await;
        client.send(vec![b'x'; 200_000]).await;
        client.get("/").await;
        assert!(client.until("hello").await.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test(start_paused = true)]
async fn after_an_early_answer_a_body_that_does_not_come_ends_the_connection() {
    let server = Server::start(10, 10);
    let mut client = server.connect("192.0.2.1");
    client.send("POST /refuse HTTP/1.1\r\nhost: h\r\ncontent-length: 1000\r\n\r\n").await;
    client.until("who are you?").await;
    let start = Instant::now();
    client.rest().await;
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_ends_when_its_time_does_leaves_no_connection_without_a_deadline() {
    for millis in [4_999, 5_000, 5_001] {
        let server = Server::start(10, 10);
        let mut client = server.connect("192.0.2.1");
        client.send("POST /refuse HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{").await;
        client.until("who are you?").await;
        sleep(Duration::from_millis(millis)).await;
        // it may be closed already
        let _ = client.stream.write_all(b"}").await;
        let ended = timeout(Duration::from_hours(1), client.rest()).await;
        assert_eq!(ended.as_deref(), Ok(""), "{millis} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn an_early_answer_says_so_where_the_connection_ends_with_it() {
    let heads = [
        "content-length: 20971520\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\n",
        "content-length: 10\r\nexpect: 100-continue\r\n\r\n",
    ];
    for head in heads {
        let server = Server::start(10, 10);
        let mut client = server.connect("192.0.2.1");
        client.send(format!("POST /refuse HTTP/1.1\r\nhost: h\r\n{head}")).await;
        let answer = client.rest().await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        assert!(answer.contains("connection: close") && answer.ends_with("who are you?"), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_writes_all_before_it_reads_gets_its_answer() {
    let server = Server::start(10, 10);
    let mut client = server.connect("192.0.2.1");
    client.send("POST /refuse HTTP/1.1\r\nhost: h\r\ncontent-length: 20971520\r\n\r\n").await;
    for _ in 0..20 {
        client.send(vec![b'x'; 1 << 20]).await;
    }
    assert!(client.rest().await.ends_with("who are you?"));
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_broken_head_arrives_under_what_follows() {
    let server = Server::start(10, 10);
    let mut client = server.connect("192.0.2.1");
    client.send("no such thing\r\n\r\n").await;
    client.send(vec![b'x'; 1 << 20]).await;
    assert!(client.rest().await.starts_with("HTTP/1.1 400"));
}

#[tokio::test(start_paused = true)]
async fn http_2_is_off() {
    let server = Server::start(10, 10);
    let mut client = server.connect("192.0.2.1");
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    assert_eq!(client.rest().await, "");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_gone_after_ninety_seconds() {
    let server = Server::start(1, 1);
    let mut client = server.connect("192.0.2.1");
    client.get("/large").await;
    sleep(Duration::from_secs(89)).await;
    assert_eq!(server.lifecycle.tracker.len(), 1);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(server.lifecycle.tracker.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_gets_all() {
    let server = Server::start(1, 1);
    let mut client = server.connect("192.0.2.1");
    client.get("/large").await;
    client.until("\r\n\r\n").await;
    let mut part = vec![0; 64 * 1024];
    for _ in 0..16 {
        sleep(Duration::from_secs(80)).await;
        client.stream.read_exact(&mut part).await.unwrap();
    }
}
