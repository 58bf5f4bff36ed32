//! Costs over the number of changes of a list that a server reports.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::{
    curve::{Cost, Curve, Growth, median},
    installation::{Engine, Installation, ROOMY, call, tools},
    mcp_server::McpServers,
};

const POINTS: [u32; 4] = [1, 10, 100, 1_000];
/// Time between two looks at the list.
const LOOK: Duration = Duration::from_millis(5);

async fn draw(engine: Engine) {
    let curve = |cost: &str| Curve::new(cost, "changes of a list each second", Growth::Flat);
    let mut called = curve("`tools/call`");
    let mut seen = curve("time until a client's `tools/list` has a change");
    for rate in POINTS {
        let servers = McpServers::start(2);
        let installation = Installation::new(&engine).await.configured(&format!("{ROOMY}{}", servers.sections(2, "")));
        let running = installation.start().await;
        let mut client = running.session().await;
        while tools(&mut client).await.len() < 4 {}
        let mut ticks = interval(Duration::from_secs(1) / rate);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let storm = async {
            loop {
                ticks.tick().await;
                servers.change();
            }
        };
        let measured = async {
            let mut times = Vec::new();
            for _ in 0..11 {
                let (started, change) = (Instant::now(), servers.change());
                let has_it = |name: &String| {
                    name.split_once("changed").is_some_and(|(_, at)| at.parse::<u32>().unwrap() >= change)
                };
                while !tools(&mut client).await.iter().any(has_it) {
                    sleep(LOOK).await;
                }
                times.push(started.elapsed());
            }
            times.sort_unstable();
            (times[times.len() / 2], median(51, async || call(&mut client, "s0__echo", "x").await).await)
        };
        let (listed, answered) = tokio::select! {
            measured = measured => measured,
            () = storm => unreachable!("it goes on"),
        };
        seen.add(rate, Cost::Time(listed));
        called.add(rate, answered);
    }
    called.print();
    seen.print();
}

on_sqlite!(draw);
