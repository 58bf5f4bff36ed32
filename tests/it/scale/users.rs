//! Costs over the number of users who call at once, at a server with a session for each and room for sixty-four.

use futures_util::future::join_all;
use tokio::time::Instant;

use super::{
    curve::{Curve, Growth},
    installation::{Engine, Installation, ROOMY, call, tools},
    mcp_server::McpServers,
};
use crate::kit::player::Binding;

const POINTS: [u32; 4] = [1, 10, 100, 1_000];

async fn draw(engine: Engine) {
    let curve = |cost: &str| Curve::new(format!("{cost}, {}", engine.name), "users at once", Growth::Linear);
    let mut first = curve("all first calls, for which each user gets a session at the server");
    let mut again = curve("all further calls");
    let servers = McpServers::start(2);
    let sections = servers.sections(2, "share = \"user\"\n");
    let installation = Installation::new(&engine).await.configured(&format!("{ROOMY}{sections}"));
    let running = installation.start().await;
    while tools(&mut running.session().await).await.len() < 4 {}
    let mut clients = Vec::new();
    for count in POINTS {
        let mut new = Vec::new();
        while clients.len() + new.len() < count as usize {
            let key = installation.key(&format!("user{}", clients.len() + new.len()));
            new.push(running.session_of(&key, Binding::Streamable, "").await);
        }
        clients.append(&mut new);
        for curve in [&mut first, &mut again] {
            let started = Instant::now();
            join_all(clients.iter_mut().map(|client| call(client, "s0__echo", "x"))).await;
            curve.add(count, started.elapsed());
        }
    }
    first.print();
    again.print();
}

on_both_databases!(draw);
