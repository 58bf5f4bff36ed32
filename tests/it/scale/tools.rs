//! Costs over the number of tools of one server.

use super::{
    curve::{Curve, Growth, median},
    installation::{Engine, Installation, ROOMY, call, tools},
    mcp_server::McpServers,
};

const POINTS: [u32; 4] = [10, 100, 1_000, 10_000];

async fn draw(engine: Engine) {
    let curve = |cost: &str, growth| Curve::new(cost, "tools of a server", growth);
    let mut called = curve("`tools/call`", Growth::Flat);
    let mut initialize = curve("`initialize` and a first request", Growth::Flat);
    let mut listed = curve("`tools/list`, all pages", Growth::Linear);
    for count in POINTS {
        let servers = McpServers::start(count);
        // two, so that names are those of the merged endpoint
        let installation = Installation::new(&engine).await.configured(&format!("{ROOMY}{}", servers.sections(2, "")));
        let running = installation.start().await;
        let mut client = running.session().await;
        while tools(&mut client).await.len() < 2 * count as usize {}
        called.add(count, median(51, async || call(&mut client, "s0__echo", "x").await).await);
        initialize.add(count, median(51, async || running.initialize().await).await);
        listed.add(count, median(5, async || drop(tools(&mut client).await)).await);
    }
    for curve in [called, initialize, listed] {
        curve.print();
    }
}

on_sqlite!(draw);
