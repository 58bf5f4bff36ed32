//! Costs over the number of open sessions, at a server that all share.

use serde_json::json;
use tokio::time::Instant;

use super::{
    curve::{Cost, Curve, Growth, median},
    installation::{Engine, Installation, ROOMY, ask, call, tools},
    mcp_server::McpServers,
};
use crate::kit::player::{Binding, PlayerConnection};

const POINTS: [u32; 4] = [5, 50, 500, 5_000];
const RESOURCE: &str = "file:///a";

async fn draw(engine: Engine) {
    let curve = |cost: &str| Curve::new(format!("{cost}, {}", engine.name), "sessions with a stream", Growth::Flat);
    let mut called = curve("`tools/call`");
    let mut initialize = curve("`initialize` and a first request");
    let mut told = curve("update of a resource that one session hears");
    let servers = McpServers::start(2);
    let installation =
        Installation::new(&engine).await.configured(&format!("{ROOMY}{}", servers.sections(1, "share = \"all\"\n")));
    let running = installation.start().await;
    let open = async || {
        let mut opened = running.session_of(&running.person.key, Binding::Streamable, "/s0").await;
        opened.listen().await.unwrap();
        opened
    };
    let mut client = open().await;
    while tools(&mut client).await.len() < 2 {}
    ask(&mut client, "resources/subscribe", json!({ "uri": RESOURCE })).await;
    let mut opened: Vec<PlayerConnection> = Vec::new();
    for count in POINTS {
        while opened.len() < count as usize {
            opened.push(open().await);
        }
        let mut hear = async || {
            let started = Instant::now();
            servers.say("notifications/resources/updated", &json!({ "uri": RESOURCE }));
            while client.next().await.unwrap()["method"] != "notifications/resources/updated" {}
            started.elapsed()
        };
        let mut times = Vec::new();
        for _ in 0..51 {
            times.push(hear().await);
        }
        times.sort_unstable();
        told.add(count, Cost::Time(times[times.len() / 2]));
        called.add(count, median(51, async || call(&mut client, "echo", "x").await).await);
        initialize.add(count, median(21, async || running.initialize().await).await);
    }
    for curve in [called, initialize, told] {
        curve.print();
    }
}

on_both_databases!(draw);
