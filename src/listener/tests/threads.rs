//! Connections on worker threads, under the real clock.

use std::{
    collections::BTreeSet,
    sync::{Arc, mpsc},
};

use axum::{Router, routing::get};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Client, Server};
use crate::listener::WorkerThreads;

/// Opens a stream, and reads its first event.
async fn streaming(server: &Server, address: &str) -> Client {
    let mut client = server.connect(address);
    client.get("/stream").await;
    client.until("data: 0\n\n").await;
    client
}

/// The thread that serves a connection.
async fn thread(client: &mut Client) -> String {
    client.get("/thread").await;
    let answer = client.until("\n\n").await;
    answer.trim_end().rsplit('\n').next().unwrap().to_owned()
}

#[tokio::test]
async fn connections_are_spread_over_the_threads_and_stay_where_they_are() {
    let threads = WorkerThreads::start(2).unwrap();
    let server = Server::on(threads.workers(), (64, 64), Router::new());
    let mut clients = Vec::new();
    let mut names = BTreeSet::new();
    while names.len() < 2 {
        let mut client = server.connect("192.0.2.1");
        let thread = thread(&mut client).await;
        names.insert(thread.clone());
        clients.push((client, thread));
    }
    for (client, before) in &mut clients {
        assert_eq!(thread(client).await, *before);
    }
}

#[tokio::test]
async fn the_bound_counts_the_connections_of_all_threads() {
    let threads = WorkerThreads::start(2).unwrap();
    let server = Server::on(threads.workers(), (2, 2), Router::new());
    let streams = [streaming(&server, "192.0.2.1").await, streaming(&server, "192.0.2.2").await];
    assert!(server.connect("192.0.2.3").rest().await.starts_with("HTTP/1.1 503"));
    drop(streams);
}

#[tokio::test]
async fn a_connection_on_another_thread_makes_room() {
    let threads = WorkerThreads::start(2).unwrap();
    let server = Server::on(threads.workers(), (2, 2), Router::new());
    let stream = streaming(&server, "192.0.2.1").await;
    let mut idle = server.connect("192.0.2.2");
    idle.get("/").await;
    idle.until("hello").await;
    loop {
        let mut next = server.connect("192.0.2.3");
        next.get("/").await;
        // refused as long as the server has not noticed that the client has the whole answer
        if next.until("hello").await.starts_with("HTTP/1.1 200") {
            break;
        }
    }
    assert_eq!(idle.rest().await, "");
    drop(stream);
}

#[tokio::test]
async fn a_drain_and_a_cancel_reach_the_connections_of_all_threads() {
    let threads = WorkerThreads::start(2).unwrap();
    let mut server = Server::on(threads.workers(), (8, 8), Router::new());
    let streams = [streaming(&server, "192.0.2.1").await, streaming(&server, "192.0.2.2").await];
    let mut idle = Vec::new();
    for _ in 0..2 {
        let mut client = server.connect("192.0.2.3");
        client.get("/").await;
        client.until("hello").await;
        idle.push(client);
    }
    server.lifecycle.drain.cancel();
    for mut client in idle {
        assert_eq!(client.rest().await, "");
    }
    server.lifecycle.cancel.cancel();
    for mut client in streams {
        client.rest().await;
    }
    server.served.join_next().await.unwrap().unwrap();
    server.lifecycle.tracker.close();
    server.lifecycle.tracker.wait().await;
}

#[tokio::test]
async fn a_thread_that_is_blocked_keeps_no_new_connection() {
    let threads = WorkerThreads::start(2).unwrap();
    let (release, released) = mpsc::channel::<()>();
    let (blocked, released) = (Arc::new(Notify::new()), Arc::new(Mutex::new(released)));
    let block = {
        let blocked = Arc::clone(&blocked);
        async move || {
            blocked.notify_one();
            let _ = released.lock().recv();
            format!("{}\n\n", std::thread::current().name().unwrap())
        }
    };
    let server = Server::on(threads.workers(), (16, 16), Router::new().route("/block", get(block)));
    let mut blocking = server.connect("192.0.2.1");
    blocking.get("/block").await;
    blocked.notified().await;
    let mut others = Vec::new();
    for _ in 0..8 {
        let mut client = server.connect("192.0.2.1");
        let other = thread(&mut client).await;
        others.push((client, other));
    }
    drop(release);
    let answer = blocking.until("\n\n").await;
    let blocked = answer.trim_end().rsplit('\n').next().unwrap();
    assert!(blocked.starts_with("worker-"), "{answer}");
    assert!(others.iter().all(|(_, other)| other != blocked), "{blocked} serves no other");
}
