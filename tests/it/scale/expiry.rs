//! The slowest of what people do while all rows of each table expire, and afterwards.

use std::time::Duration;

use lockkeeper::support::{Clock as _, SystemClock};
use serde_json::json;
use tokio::time::Instant;

use super::{
    curve::Cost,
    installation::{Engine, Installation, Running, ask, call},
};
use crate::storage::filling::Ages;

/// Rows of each table that expire at once.
const ROWS: u32 = 100_000;
/// Rounds that are measured at most without anything that expires.
const QUIET_ROUNDS: usize = 500;
/// Things that people do.
const DONE: [&str; 4] =
    ["`tools/call`", "`initialize` and a first request", "login of an app: consent and tokens", "refresh"];

/// The times of each.
#[derive(Default)]
struct Times([Vec<Duration>; 4]);

impl Times {
    /// Measures one round.
    async fn add(&mut self, running: &mut Running, app: &str) {
        let started = Instant::now();
        let mut client = running.session().await;
        ask(&mut client, "ping", json!({})).await;
        let opened = started.elapsed();
        let started = Instant::now();
        call(&mut client, "demo__echo", "x").await;
        let called = started.elapsed();
        let started = Instant::now();
        let mut app = running.person.let_in("an app", app.to_owned(), "/mcp").await;
        let logged_in = started.elapsed();
        let started = Instant::now();
        running.person.refresh(&mut app).await;
        let refreshed = started.elapsed();
        client.close().await;
        for (times, taken) in self.0.iter_mut().zip([called, opened, logged_in, refreshed]) {
            times.push(taken);
        }
    }

    /// The longest of each, and the one that only one in a hundred exceeds.
    fn texts(mut self) -> [String; 4] {
        for times in &mut self.0 {
            times.sort_unstable();
        }
        let text = |times: &Vec<Duration>| {
            let [longest, long] = [times.len() - 1, times.len() * 99 / 100].map(|at| Cost::Time(times[at]));
            format!("{longest} ({long})")
        };
        self.0.each_ref().map(text)
    }
}

async fn measure(engine: Engine) {
    let installation = Installation::new(&engine).await;
    installation.fill(ROWS, Ages::Ended).await;
    let mut running = installation.start().await;
    let app = running.person.register_app("an app").await;
    let (mut busy, started) = (Times::default(), Instant::now());
    let old = SystemClock.now() - Duration::from_hours(365 * 24);
    let left =
        "SELECT (SELECT count(*) FROM grants WHERE expires < $1) + (SELECT count(*) FROM audit_events WHERE at < $1)
                + (SELECT count(*) FROM clients WHERE expired IS NULL AND registered < $1)";
    let left = async || {
        let left = sqlx::query_scalar::<_, i64>(left).bind(old.as_millis());
        left.fetch_one(&installation.database).await.unwrap()
    };
    // to count them takes a while, too
    while left().await > 0 {
        for _ in 0..10 {
            busy.add(&mut running, &app).await;
        }
    }
    let lasted = started.elapsed().as_secs();
    let mut quiet = Times::default();
    for _ in 0..QUIET_ROUNDS.min(busy.0[0].len()) {
        quiet.add(&mut running, &app).await;
    }
    for ((what, quiet), busy) in DONE.iter().zip(quiet.texts()).zip(busy.texts()) {
        println!("\n| {what}, {} | {quiet} | {busy} | {lasted} s |", engine.name);
    }
}

on_both_databases!(measure);
