//! Costs over the size of a message, there and back.

use super::{
    curve::{Curve, Growth, median},
    installation::{Engine, Installation, ROOMY, call, tools},
    mcp_server::McpServers,
};

const POINTS: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];

async fn draw(engine: Engine) {
    let mut called = Curve::new("`tools/call`, there and back", "bytes of a text", Growth::Linear);
    let servers = McpServers::start(2);
    let installation = Installation::new(&engine).await.configured(&format!("{ROOMY}{}", servers.sections(2, "")));
    let running = installation.start().await;
    let mut client = running.session().await;
    while tools(&mut client).await.len() < 4 {}
    for size in POINTS {
        let text = "x".repeat(size as usize);
        called.add(size, median(21, async || call(&mut client, "s0__echo", &text).await).await);
    }
    called.print();
}

on_sqlite!(draw);
