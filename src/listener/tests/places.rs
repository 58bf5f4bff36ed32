//! Admission, eviction and the end of connections.

use std::{io, time::Duration};

use axum::{Extension, Router, extract::Path, http::StatusCode, routing::get};
use tokio::time::{Instant, sleep};

use super::{Client, Server};
use crate::{
    listener::{ConnectionPlace, Workers},
    model::UserId,
};

#[tokio::test(start_paused = true)]
async fn a_stream_of_hours_is_never_cut() {
    let server = Server::start(1, 1);
    let mut client = server.connect("192.0.2.1");
    client.get("/stream").await;
    client.until("data: 0\n\n").await;
    let mut other = server.connect("192.0.2.2");
    assert!(other.rest().await.starts_with("HTTP/1.1 503"), "no place, and the stream does not make any");
    let events = client.until("\r\n0\r\n\r\n").await;
    assert_eq!(events.matches("data: 1").count(), 10);
}

#[tokio::test(start_paused = true)]
async fn when_all_places_are_taken_heads_go_first_then_idle_connections_and_requests_never() {
    let server = Server::start(3, 3);
    let mut working = server.connect("192.0.2.1");
    working.get("/wait").await;
    let mut idle = server.connect("192.0.2.2");
    idle.get("/").await;
    idle.until("hello").await;
    let mut silent = server.connect("192.0.2.3");
    sleep(Duration::from_secs(1)).await;
    let mut first = server.connect("192.0.2.4");
    first.get("/wait").await;
    assert_eq!(silent.rest().await, "");
    let mut second = server.connect("192.0.2.5");
    second.get("/wait").await;
    assert_eq!(idle.rest().await, "");
    sleep(Duration::from_secs(1)).await;
    let mut third = server.connect("192.0.2.6");
    third.get("/").await;
    let refused = third.rest().await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after"), "{refused}");
    server.answer.notify_waiters();
    for mut client in [working, first, second] {
        assert!(client.until("done").await.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test(start_paused = true)]
async fn when_all_places_are_taken_clients_that_read_nothing_make_room() {
    let server = Server::start(2, 2);
    let mut working = server.connect("192.0.2.1");
    working.get("/wait").await;
    let mut stalled = server.connect("192.0.2.2");
    stalled.get("/large").await;
    sleep(Duration::from_secs(1)).await;
    let mut next = server.connect("192.0.2.3");
    next.get("/").await;
    assert!(next.until("hello").await.starts_with("HTTP/1.1 200"));
    server.answer.notify_waiters();
    assert!(working.until("done").await.starts_with("HTTP/1.1 200"), "a request that runs is never closed");
    assert!(stalled.rest().await.len() < 1 << 20);
}

#[tokio::test(start_paused = true)]
async fn one_address_has_its_own_bound() {
    let server = Server::start(100, 1);
    let mut working = Vec::new();
    for exempt in ["127.0.0.1", "10.0.0.9", "::1"] {
        for _ in 0..3 {
            let mut client = server.connect(exempt);
            client.get("/wait").await;
            sleep(Duration::from_secs(1)).await;
            working.push(client);
        }
    }
    let mut first = server.connect("2001:db8::1");
    first.get("/wait").await;
    sleep(Duration::from_secs(1)).await;
    let mut second = server.connect("2001:db8::2");
    assert!(second.rest().await.starts_with("HTTP/1.1 429"));
    let mut other = server.connect("192.0.2.2");
    other.get("/").await;
    other.until("hello").await;
    let mut next = server.connect("192.0.2.2");
    next.get("/").await;
    next.until("hello").await;
    assert_eq!(other.rest().await, "", "the idle connection of the same address made room");
    server.answer.notify_waiters();
    for mut client in working.into_iter().chain([first]) {
        assert!(client.until("done").await.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgraded_connection_keeps_its_place_until_it_is_closed() {
    let server = Server::start(1, 1);
    let mut client = server.connect("192.0.2.1");
    client.send("GET /echo HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n").await;
    assert!(client.until("\r\n\r\n").await.starts_with("HTTP/1.1 101"));
    for _ in 0..3 {
        sleep(Duration::from_hours(1)).await;
        client.send("ping").await;
        assert_eq!(client.until("ping").await, "ping");
        assert!(server.connect("192.0.2.2").rest().await.starts_with("HTTP/1.1 503"));
    }
    drop(client);
    sleep(Duration::from_secs(1)).await;
    let mut next = server.connect("192.0.2.2");
    next.get("/").await;
    next.until("hello").await;
}

#[tokio::test(start_paused = true)]
async fn an_error_of_accept_is_survived() {
    let server = Server::start(10, 10);
    let start = Instant::now();
    for _ in 0..10 {
        server.arrivals.send(Err(io::Error::from_raw_os_error(24))).unwrap();
    }
    let mut client = server.connect("192.0.2.1");
    client.get("/").await;
    client.until("hello").await;
    assert_eq!(start.elapsed().as_millis(), 1000, "it does not spin");
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_idle_connections_at_once_and_the_others_with_their_response() {
    let mut server = Server::start(10, 10);
    let (mut idle, mut working) = (server.connect("192.0.2.1"), server.connect("192.0.2.1"));
    idle.get("/").await;
    idle.until("hello").await;
    working.get("/wait").await;
    sleep(Duration::from_secs(1)).await;
    server.lifecycle.drain.cancel();
    assert_eq!(idle.rest().await, "");
    server.answer.notify_waiters();
    let answer = working.rest().await;
    assert!(answer.contains("connection: close") && answer.ends_with("done"), "{answer}");
    server.served.join_next().await.unwrap().unwrap();
    assert!(server.lifecycle.tracker.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_every_connection() {
    let mut server = Server::start(10, 10);
    let mut client = server.connect("192.0.2.1");
    client.get("/stream").await;
    client.until("data: 0\n\n").await;
    server.lifecycle.drain.cancel();
    server.lifecycle.cancel.cancel();
    server.served.join_next().await.unwrap().unwrap();
    client.rest().await;
}

/// A server whose requests for `/as/NAME` and `/hold/NAME` are those of a user of this name: the one is answered at
/// once, the other after hours.
fn with_users(connections: usize) -> Server {
    let name = |place: &ConnectionPlace, user: &str| {
        if place.hold_for(&UserId::new(user)) { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS }
    };
    let at_once =
        async move |Extension(place): Extension<ConnectionPlace>, Path(user): Path<String>| name(&place, &user);
    let later = async move |Extension(place): Extension<ConnectionPlace>, Path(user): Path<String>| {
        let status = name(&place, &user);
        if status == StatusCode::OK {
            sleep(Duration::from_hours(1)).await;
        }
        status
    };
    let routes = Router::new().route("/as/{user}", get(at_once)).route("/hold/{user}", get(later));
    Server::on(Workers::present(), (connections, connections), routes)
}

/// A connection on which this user's request was answered a second ago.
async fn idle_of(server: &Server, user: &str) -> Client {
    let mut client = server.connect("192.0.2.1");
    client.get(&format!("/as/{user}")).await;
    assert!(client.until("\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    sleep(Duration::from_secs(1)).await;
    client
}

#[tokio::test(start_paused = true)]
async fn the_user_with_the_most_connections_makes_room_first() {
    let server = with_users(4);
    let mut anns = idle_of(&server, "ann").await;
    let theirs = [idle_of(&server, "hostile").await, idle_of(&server, "hostile").await];
    let mut running = server.connect("192.0.2.1");
    running.get("/hold/hostile").await;
    sleep(Duration::from_secs(1)).await;
    let mut others = Vec::new();
    for (user, mut gone) in ["bob", "carl"].into_iter().zip(theirs) {
        others.push(idle_of(&server, user).await);
        assert_eq!(gone.rest().await, "", "of the user with the most, what was idle longest");
    }
    anns.get("/as/ann").await;
    assert!(anns.until("\r\n\r\n").await.starts_with("HTTP/1.1 200"), "hers was idle for longest");
    assert!(running.until("\r\n\r\n").await.starts_with("HTTP/1.1 200"), "a request that runs is never closed");
}

#[tokio::test(start_paused = true)]
async fn an_eighth_of_the_connections_is_kept_for_users_who_have_none() {
    let server = with_users(16);
    let mut running = Vec::new();
    for _ in 0..14 {
        let mut client = server.connect("192.0.2.1");
        client.get("/hold/hostile").await;
        sleep(Duration::from_secs(1)).await;
        running.push(client);
    }
    for _ in 0..5 {
        let mut refused = server.connect("192.0.2.1");
        refused.get("/hold/hostile").await;
        assert!(refused.until("\r\n\r\n").await.starts_with("HTTP/1.1 429"));
    }
    let mut anns = server.connect("192.0.2.2");
    anns.get("/as/ann").await;
    assert!(anns.until("\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    for client in &mut running {
        assert!(client.until("\r\n\r\n").await.starts_with("HTTP/1.1 200"));
    }
}
