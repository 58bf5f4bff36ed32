//! Costs over the number of rows of each table. None of them depends on it, but for what lists all.

use serde_json::json;

use super::{
    curve::{Curve, Growth, median},
    installation::Installation,
};
use crate::{storage::filling::Ages, support::postgres};

const OVER: &str = "rows of each table";

async fn draw(engine: &str, server: Option<&str>) {
    let curve = |cost: &str, allowed| Curve::new(format!("{cost}, {engine}"), OVER, allowed);
    let mut call = curve("`tools/call`", Growth::Flat);
    let mut initialize = curve("`initialize` and a first request", Growth::Flat);
    let mut login = curve("login of an app: consent and tokens", Growth::Flat);
    let mut refresh = curve("refresh", Growth::Flat);
    let mut account = curve("account page", Growth::Flat);
    let mut users = curve("`lockkeeper users list`", Growth::Linear);
    for rows in Curve::POINTS {
        let installation = Installation::new(server).await;
        installation.fill(rows, Ages::Mostly).await;
        let (gateway, mut person) = installation.start().await;
        let mut client = person.client("2025-11-25", json!({}));
        client.tools().await;
        call.add(rows, median(51, async || drop(client.call("demo__echo").await)).await);
        initialize.add(rows, median(21, async || person.initialize().await).await);
        let mut app = person.connect_app("an app", "/mcp").await;
        login.add(rows, median(21, async || app = person.let_in("an app", app.client.clone(), "/mcp").await).await);
        refresh.add(rows, median(21, async || person.refresh(&mut app).await).await);
        account.add(rows, median(21, async || drop(person.get("/account").await)).await);
        users.add(rows, median(3, async || installation.run(&["users", "list"])).await);
        gateway.stop().await;
    }
    for curve in [call, initialize, login, refresh, account, users] {
        curve.print();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: scripts/scale"]
async fn sqlite() {
    draw("SQLite", None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: scripts/scale"]
async fn postgresql() {
    draw("PostgreSQL", postgres().as_deref()).await;
}
