//! Connections on worker threads, under the real clock.

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
async fn connections_are_spread_evenly_and_stay_where_they_are() {
    let threads = WorkerThreads::start(2).unwrap();
    let server = Server::on(threads.workers(), 8, 8);
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = server.connect("192.0.2.1");
        let thread = thread(&mut client).await;
        clients.push((client, thread));
    }
    for (client, before) in &mut clients {
        assert_eq!(thread(client).await, *before);
    }
    let mut names: Vec<_> = clients.into_iter().map(|(_, name)| name).collect();
    names.sort();
    assert_eq!(names, ["worker-0", "worker-0", "worker-1", "worker-1"]);
}

#[tokio::test]
async fn the_bound_counts_the_connections_of_all_threads() {
    let threads = WorkerThreads::start(2).unwrap();
    let server = Server::on(threads.workers(), 2, 2);
    let streams = [streaming(&server, "192.0.2.1").await, streaming(&server, "192.0.2.2").await];
    assert!(server.connect("192.0.2.3").rest().await.starts_with("HTTP/1.1 503"));
    drop(streams);
}

#[tokio::test]
async fn a_connection_on_another_thread_makes_room() {
    let threads = WorkerThreads::start(2).unwrap();
    let server = Server::on(threads.workers(), 2, 2);
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
    let mut server = Server::on(threads.workers(), 8, 8);
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
    assert!(server.lifecycle.tracker.is_empty());
}
