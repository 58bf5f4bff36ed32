//! Costs over the number of servers: what a session with all of them costs, whatever its transport.

use super::{
    curve::{Cost, Curve, Growth, median},
    installation::{Engine, Installation, ROOMY, call, tools},
    mcp_server::McpServers,
};
use crate::kit::player::{Binding, PlayerConnection};

const POINTS: [u32; 4] = [1, 10, 50, 200];
/// Sessions that are weighed, and those that are opened before.
const SESSIONS: (u32, u32) = (1_000, 1_000);
/// How many times as much as one at one server an idle session at fifty may cost.
const MOST: f64 = 1.2;

/// A kind of session.
#[derive(Clone, Copy)]
enum Kind {
    WithoutStream,
    WithStream,
    Sse,
}

// === impl Kind ===

impl Kind {
    const ALL: [Self; 3] = [Self::WithoutStream, Self::WithStream, Self::Sse];

    const fn text(self) -> &'static str {
        match self {
            Self::WithoutStream => "without a stream",
            Self::WithStream => "with its stream",
            Self::Sse => "over HTTP+SSE",
        }
    }
}

async fn draw(engine: Engine) {
    let curve = |cost: &str, growth| Curve::new(cost, "servers", growth);
    let mut called = curve("`tools/call`", Growth::Flat);
    let mut initialize = curve("`initialize` and a first request", Growth::Flat);
    let mut listed = curve("`tools/list`", Growth::Linear);
    let mut held = Kind::ALL.map(|kind| curve(&format!("memory of an idle session {}", kind.text()), Growth::Flat));
    for count in POINTS {
        let servers = McpServers::start(2);
        for (kind, held) in Kind::ALL.into_iter().zip(&mut held) {
            let configuration = format!("{ROOMY}{}", servers.sections(count, ""));
            let installation = Installation::new(&engine).await.configured(&configuration);
            let running = installation.start().await;
            let mut client = running.session().await;
            while tools(&mut client).await.len() < 2 * count as usize {}
            let open = async || {
                let binding = if matches!(kind, Kind::Sse) { Binding::Sse } else { Binding::Streamable };
                let mut opened = running.session_of(&running.person.key, binding, "").await;
                if matches!(kind, Kind::WithStream) {
                    opened.listen().await.unwrap();
                }
                opened
            };
            let mut opened: Vec<PlayerConnection> = Vec::new();
            for _ in 0..SESSIONS.1 {
                opened.push(open().await);
            }
            let Cost::Bytes(before) = running.memory().await else { unreachable!("memory is bytes") };
            for _ in 0..SESSIONS.0 {
                opened.push(open().await);
            }
            let Cost::Bytes(after) = running.memory().await else { unreachable!("memory is bytes") };
            held.add(count, Cost::Bytes(after.saturating_sub(before)).each(SESSIONS.0));
            if matches!(kind, Kind::WithoutStream) {
                let tool = if count == 1 { "echo" } else { "s0__echo" };
                let tool = if tools(&mut client).await.iter().any(|name| name == tool) { tool } else { "s0__echo" };
                called.add(count, median(51, async || call(&mut client, tool, "x").await).await);
                initialize.add(count, median(51, async || running.initialize().await).await);
                listed.add(count, median(21, async || drop(tools(&mut client).await)).await);
            }
        }
    }
    for curve in [&called, &initialize, &listed].into_iter().chain(&held) {
        curve.print();
    }
    // one without a stream holds hardly more than a weighing errs by
    for (kind, held) in Kind::ALL.into_iter().zip(held).skip(1) {
        let times = held.at(50).times(held.at(1));
        assert!(times <= MOST, "a session {} at 50 servers costs {times:.2} times one at 1", kind.text());
    }
}

on_sqlite!(draw);
