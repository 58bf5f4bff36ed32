//! Costs over the number of rows of each table. None of them depends on it, but for what lists all.

use super::{
    curve::{Curve, Growth, median},
    installation::{Engine, Installation, Running, call, tools},
};
use crate::storage::filling::Ages;

async fn draw(engine: Engine) {
    let curve = |cost: &str, allowed| Curve::new(format!("{cost}, {}", engine.name), "rows of each table", allowed);
    let mut called = curve("`tools/call`", Growth::Flat);
    let mut initialize = curve("`initialize` and a first request", Growth::Flat);
    let mut login = curve("login of an app: consent and tokens", Growth::Flat);
    let mut refresh = curve("refresh", Growth::Flat);
    let mut account = curve("account page", Growth::Flat);
    let mut users = curve("`lockkeeper users list`", Growth::Linear);
    for rows in Curve::POINTS {
        let installation = Installation::new(&engine).await;
        installation.fill(rows, Ages::Mostly).await;
        let running = installation.start().await;
        let mut client = running.session().await;
        tools(&mut client).await;
        called.add(rows, median(51, async || call(&mut client, "demo__echo", "x").await).await);
        initialize.add(rows, median(21, async || running.initialize().await).await);
        let Running { mut person, .. } = running;
        let mut app = person.connect_app("an app", "/mcp").await;
        login.add(rows, median(21, async || app = person.let_in("an app", app.client.clone(), "/mcp").await).await);
        refresh.add(rows, median(21, async || person.refresh(&mut app).await).await);
        account.add(rows, median(21, async || drop(person.get("/account").await)).await);
        users.add(rows, median(3, async || installation.run(&["users", "list"])).await);
    }
    for curve in [called, initialize, login, refresh, account, users] {
        curve.print();
    }
}

on_both_databases!(draw);
