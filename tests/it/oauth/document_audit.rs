//! What the audit trail has of metadata documents of clients: an outcome once, however often strangers ask for it.

use std::{sync::Arc, time::Duration};

use lockkeeper::{oauth::OAuthSettings, storage::AuditSearch};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{
    internet::{Internet, json_response},
    oauth::{Authority, CALLBACK, FROM},
};

const APP: &str = "https://app.example/client.json";

async fn rows(authority: &Authority) -> Vec<(String, Value)> {
    authority.oauth.sync().await.unwrap();
    let all = AuditSearch { limit: 10_000, ..AuditSearch::default() };
    let rows = authority.oauth.audit().find(&all).await.unwrap().into_iter();
    let rows = rows.filter(|row| row.row.event.starts_with("client_document_"));
    rows.map(|row| (row.row.event, serde_json::from_str(&row.row.fields).unwrap())).collect()
}

#[tokio::test]
async fn oa_141_a_metadata_document_has_a_row_when_the_outcome_of_reading_it_changes() {
    let internet = Internet::new();
    internet.name("app.example", &[&["1.1.1.1"]]);
    let described = |name: &str| json!({ "client_id": APP, "client_name": name, "redirect_uris": [CALLBACK] });
    let document = Arc::new(Mutex::new(described("The app")));
    let served = Arc::clone(&document);
    internet.host("1.1.1.1", move |_| json_response("", &served.lock()));
    let settings = OAuthSettings { fetcher: Some(internet.fetcher()), ..Authority::settings() };
    let authority = Authority::with(settings).await;
    let ask = async || {
        for _ in 0..5 {
            authority.clock.advance(Duration::from_hours(1));
            authority.oauth.authorization().begin(&Authority::query(APP, &[]), FROM).await;
        }
    };
    let read = |name: &str| ("client_document_read".to_owned(), json!({ "client": APP, "name": name }));
    ask().await;
    assert_eq!(rows(&authority).await, [read("The app")]);
    *document.lock() = described("Another name");
    ask().await;
    assert_eq!(rows(&authority).await, [read("The app"), read("Another name")]);
    *document.lock() = json!({ "client_id": APP });
    ask().await;
    let reason = json!({ "client": APP, "reason": "it has no client_name" });
    let refused = ("client_document_refused".to_owned(), reason);
    assert_eq!(rows(&authority).await, [read("The app"), read("Another name"), refused.clone()]);
    *document.lock() = described("Another name");
    ask().await;
    let expected = [read("The app"), read("Another name"), refused, read("Another name")];
    assert_eq!(rows(&authority).await, expected);
}
