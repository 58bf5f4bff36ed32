//! The slowest of what people do while all rows of each table expire, and without.

use std::time::Duration;

use lockkeeper::support::{Clock as _, SystemClock};
use serde_json::json;
use tokio::time::Instant;

use super::{curve::milliseconds, installation::Installation};
use crate::{kit::person::Person, storage::filling::Ages, support::postgres};

/// Rows of each table that expire at once.
const ROWS: u32 = 100_000;
/// Rounds that are measured without anything that expires.
const QUIET_ROUNDS: usize = 40;

/// The longest time of each.
#[derive(Default)]
struct Slowest([Duration; 4]);

impl Slowest {
    /// Measures one round.
    async fn add(&mut self, person: &mut Person, app: &str) {
        let mut client = person.client("2025-11-25", json!({}));
        let started = Instant::now();
        client.ask("ping", json!({})).await;
        let opened = started.elapsed();
        let started = Instant::now();
        client.call("demo__echo").await;
        let called = started.elapsed();
        let started = Instant::now();
        let mut app = person.let_in("an app", app.to_owned(), "/mcp").await;
        let logged_in = started.elapsed();
        let started = Instant::now();
        person.refresh(&mut app).await;
        for (slowest, taken) in self.0.iter_mut().zip([called, opened, logged_in, started.elapsed()]) {
            *slowest = (*slowest).max(taken);
        }
    }
}

async fn measure(engine: &str, server: Option<&str>) {
    let installation = Installation::new(server).await;
    let (gateway, mut person) = installation.start().await;
    let app = person.register_app("an app").await;
    let mut quiet = Slowest::default();
    for _ in 0..QUIET_ROUNDS {
        quiet.add(&mut person, &app).await;
    }
    gateway.stop().await;
    // the rows of the audit trail go from the oldest on: none may be there before these
    let installation = Installation::new(server).await;
    installation.fill(ROWS, Ages::Ended).await;
    let (gateway, mut person) = installation.start().await;
    let app = person.register_app("an app").await;
    let (mut busy, started) = (Slowest::default(), Instant::now());
    let old = SystemClock.now() - Duration::from_hours(365 * 24);
    let left =
        "SELECT (SELECT count(*) FROM grants WHERE expires < $1) + (SELECT count(*) FROM audit_events WHERE at < $1)
                + (SELECT count(*) FROM clients WHERE expired IS NULL AND registered < $1)";
    let left = async || {
        let left = sqlx::query_scalar::<_, i64>(left).bind(old.as_millis());
        left.fetch_one(&installation.database).await.unwrap()
    };
    while left().await > 0 {
        busy.add(&mut person, &app).await;
    }
    let lasted = started.elapsed().as_secs();
    gateway.stop().await;
    for (index, what) in
        ["`tools/call`", "`initialize` and a first request", "login of an app: consent and tokens", "refresh"]
            .iter()
            .enumerate()
    {
        println!(
            "| {what}, {engine} | {} | {} | {lasted} s |",
            milliseconds(quiet.0[index]),
            milliseconds(busy.0[index])
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: scripts/scale"]
async fn sqlite() {
    measure("SQLite", None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: scripts/scale"]
async fn postgresql() {
    measure("PostgreSQL", postgres().as_deref()).await;
}
