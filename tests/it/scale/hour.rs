//! What is left of people who have come and gone: an hour compressed. Each logs an app in, which opens a session, calls ten times
//! and ends it.

use super::{
    curve::{Curve, Growth},
    installation::{Engine, Installation, ROOMY, call},
    mcp_server::McpServers,
};
use crate::kit::player::Binding;

const POINTS: [u32; 4] = [10, 100, 1_000, 10_000];
const CALLS: usize = 10;

async fn draw(engine: Engine) {
    let name = format!("memory of the gateway after logins, sessions and calls, {}", engine.name);
    let mut held = Curve::new(name, "logins, as many sessions, ten times as many calls", Growth::Flat);
    let servers = McpServers::start(2);
    let installation = Installation::new(&engine).await.configured(&format!("{ROOMY}{}", servers.sections(2, "")));
    let mut running = installation.start().await;
    let client = running.person.register_app("an app").await;
    let mut done = 0;
    for count in POINTS {
        while done < count {
            let app = running.person.let_in("an app", client.clone(), "/mcp").await;
            let mut session = running.session_of(&app.access, Binding::Streamable, "").await;
            for _ in 0..CALLS {
                call(&mut session, "s0__echo", "x").await;
            }
            session.close().await;
            done += 1;
        }
        held.add(count, running.memory().await);
    }
    held.print();
}

on_both_databases!(draw);
