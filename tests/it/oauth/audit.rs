//! The audit trail (`OA-141`).

use std::time::Duration;

use lockkeeper::{
    audit::{ClientEvent, LoginEvent},
    model::{ClientId, KeyId, Rights, UserId},
    oauth::{ServerChoice, UserCode, signing::RotationStart},
    storage::AuditSearch,
    support::Secret,
};
use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::support::{
    log::Lines,
    oauth::{Authority, HOME},
};

/// The events so far, each with its fields in the order of their names.
async fn events(authority: &Authority, search: AuditSearch) -> Vec<(String, Value, i64)> {
    authority.oauth.sync().await.unwrap();
    let search = AuditSearch { limit: 10_000, ..search };
    let rows = authority.oauth.audit().find(&search).await.unwrap();
    rows.into_iter().map(|row| (row.row.event, serde_json::from_str(&row.row.fields).unwrap(), row.row.count)).collect()
}

async fn names(authority: &Authority) -> Vec<String> {
    events(authority, AuditSearch::default()).await.into_iter().map(|(event, ..)| event).collect()
}

#[tokio::test]
async fn oa_141_a_login_is_recorded_from_the_registration_to_the_revocation() {
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let _ = authority.oauth.verify("nonsense", HOME).await;
    let refresh = tokens["refresh_token"].as_str().unwrap().to_owned();
    authority.form("/oauth/revoke", &[("client_id", &client), ("token", &refresh)]).await;
    assert_eq!(authority.refresh(&client, &refresh).await.error(), "400 invalid_grant");
    let all = events(&authority, AuditSearch::default()).await;
    let told: Vec<&str> = all.iter().map(|(event, ..)| event.as_str()).collect();
    assert_eq!(
        told,
        [
            "key_created",
            "client_registered",
            "consent",
            "code_redeemed",
            "token_refused",
            "grant_revoked",
            "request_refused",
        ]
    );
    let text = format!("{all:?}");
    for secret in [refresh.as_str(), tokens["access_token"].as_str().unwrap(), authority.key.expose()] {
        assert!(!text.contains(secret), "{text}");
    }
    let consent = &all[2].1;
    assert_eq!(
        (&consent["user"], &consent["client"], &consent["endpoint"]),
        (&json!("ada"), &json!(client), &json!("/mcp"))
    );
    assert_eq!(consent["approved_by"], "person");
    let of_client = events(&authority, AuditSearch { client: Some(client), ..AuditSearch::default() }).await;
    assert_eq!(of_client.len(), 3, "{of_client:?}");
    let of_user =
        AuditSearch { user: Some("ada".to_owned()), event: Some("consent".to_owned()), ..AuditSearch::default() };
    assert_eq!(events(&authority, of_user).await.len(), 1);
}

#[tokio::test]
async fn oa_141_the_approval_of_a_device_is_recorded_as_a_persons() {
    let authority = Authority::new().await;
    let metadata = json!({ "grant_types": ["urn:ietf:params:oauth:grant-type:device_code"] });
    let client = authority.register(&metadata).await.json()["client_id"].as_str().unwrap().to_owned();
    let codes = authority.form("/oauth/device_authorization", &[("client_id", &client)]).await.json();
    let code = UserCode::parse(codes["user_code"].as_str().unwrap()).unwrap();
    authority
        .oauth
        .devices()
        .approve(&code, &Secret::new("form"), &authority.holder, ServerChoice::AsAsked, HOME)
        .await
        .unwrap();
    let consents = AuditSearch { event: Some("consent".to_owned()), ..AuditSearch::default() };
    let [(_, consent, _)] = &events(&authority, consents).await[..] else { panic!("one approval") };
    let [by, of, user] = ["approved_by", "client", "user"].map(|field| consent[field].as_str().unwrap());
    assert_eq!((by, of, user), ("person", &*client, "ada"));
}

#[tokio::test]
async fn oa_141_what_strangers_cause_is_counted_beyond_a_bound() {
    let authority = Authority::new().await;
    events(&authority, AuditSearch::default()).await;
    for _ in 0..1_000 {
        let _ = authority.oauth.verify("nonsense", HOME).await;
    }
    let refused = || AuditSearch { event: Some("token_refused".to_owned()), ..AuditSearch::default() };
    assert_eq!(events(&authority, refused()).await.len(), 100);
    authority.clock.advance(Duration::from_mins(10));
    let all = events(&authority, refused()).await;
    assert_eq!(all.len(), 101);
    assert_eq!(all.iter().map(|(.., count)| count).sum::<i64>(), 1_000);
    // ten minutes later there is room for some more
    let _ = authority.oauth.verify("nonsense", HOME).await;
    assert_eq!(events(&authority, refused()).await.len(), 102);
}

/// The lines of this event.
fn lines_of(log: &Lines, event: &str) -> Vec<Value> {
    let text = log.text();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["event"] == event).collect()
}

#[tokio::test]
async fn oa_141_lines_that_strangers_cause_have_the_bound_of_rows() {
    let (authority, log) = (Authority::new().await, Lines::default());
    events(&authority, AuditSearch::default()).await;
    let writer = log.clone();
    let layer = tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(move || writer.clone());
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    for _ in 0..1_000 {
        let _ = authority.oauth.verify("nonsense", HOME).await;
    }
    assert_eq!(lines_of(&log, "token_refused").len(), 100);
    // what the operator does beside it is not lost
    authority.oauth.keys().revoke(&authority.holder.key).await.unwrap();
    assert_eq!(lines_of(&log, "key_revoked").len(), 1);
    authority.clock.advance(Duration::from_mins(10));
    events(&authority, AuditSearch::default()).await;
    let lines = lines_of(&log, "token_refused");
    assert_eq!(lines.len(), 101);
    assert_eq!(lines[100]["count"], "900");
}

#[tokio::test]
async fn oa_141_each_of_ten_thousand_users_has_rows_and_lines_of_their_own() {
    let (authority, log) = (Authority::new().await, Lines::default());
    let writer = log.clone();
    let layer = tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(move || writer.clone());
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let log_in = |user: &str| {
        let (user, key) = (UserId::new(user), KeyId::new("k"));
        authority.oauth.audit().record(LoginEvent::LoggedIn { user, key });
    };
    let mut expected = Vec::new();
    for number in 0..10_000 {
        let user = format!("user {number}");
        log_in(&user);
        if number % 1_000 == 0 {
            authority.oauth.sync().await.unwrap();
            // one who floods the trail has a bound of their own, and takes nothing from the others
            (0..1_500).for_each(|_| log_in("eve"));
        }
        expected.push(user);
    }
    let logins = AuditSearch { event: Some("login".to_owned()), limit: 20_000, ..AuditSearch::default() };
    authority.oauth.sync().await.unwrap();
    let rows = authority.oauth.audit().find(&logins).await.unwrap();
    let mut in_trail: Vec<String> = rows.into_iter().filter_map(|row| row.row.user).collect();
    let mut in_log: Vec<String> =
        lines_of(&log, "login").iter().map(|line| line["user"].as_str().unwrap().to_owned()).collect();
    for names in [&mut in_trail, &mut in_log, &mut expected] {
        names.sort_unstable();
    }
    assert_eq!(in_trail, in_log, "a line for each row, and a row for each line");
    let of_eve = in_log.iter().filter(|user| *user == "eve").count();
    assert_eq!(of_eve, 1_000);
    in_log.retain(|user| user != "eve");
    assert_eq!(in_log, expected);
}

#[tokio::test]
async fn oa_141_a_name_that_no_database_takes_holds_up_no_other_row() {
    let authority = Authority::new().await;
    authority.oauth.audit().record(ClientEvent::Created(ClientId::new("a\0b")));
    let before = names(&authority).await.len();
    authority.oauth.keys().revoke(&authority.holder.key).await.unwrap();
    assert_eq!(names(&authority).await[before..], ["key_revoked"]);
}

#[tokio::test]
async fn oa_141_the_changes_of_an_operator_are_recorded() {
    let authority = Authority::new().await;
    let client = ClientId::new(authority.client().await);
    let before = names(&authority).await.len();
    authority.oauth.clients().revoke(&client).await.unwrap();
    authority.oauth.clients().restore(&client).await.unwrap();
    authority.oauth.clients().restore(&client).await.unwrap();
    authority.oauth.keys().revoke(&authority.holder.key).await.unwrap();
    authority.oauth.signing_keys().rotate(RotationStart::Announced).await.unwrap();
    let after = names(&authority).await;
    assert_eq!(after[before..], ["client_revoked", "client_restored", "key_revoked", "signing_key_created"]);
}

#[tokio::test]
async fn oa_141_old_rows_are_deleted_after_the_configured_time() {
    let authority = Authority::new().await;
    assert!(!names(&authority).await.is_empty());
    authority.clock.advance(Duration::from_hours(24 * 401));
    let _ = authority.oauth.verify("nonsense", HOME).await;
    authority.oauth.sync().await.unwrap();
    authority.oauth.purge().await.unwrap();
    let left = names(&authority).await;
    assert_eq!(left[0], "token_refused", "{left:?}");
}

#[tokio::test]
async fn oa_141_a_key_that_was_right_is_named_with_the_reason_for_its_refusal_and_a_guess_is_not() {
    let authority = Authority::new().await;
    let (disabled, holder) = Authority::key(&authority.oauth, "ann", Rights::all_backends()).await;
    let (revoked, other) = Authority::key(&authority.oauth, "bob", Rights::all_backends()).await;
    authority.oauth.users().disable(&holder.user).await.unwrap();
    authority.oauth.keys().revoke(&other.key).await.unwrap();
    let guess = format!("{}x", disabled.expose());
    for presented in [disabled.expose(), revoked.expose(), &guess] {
        authority.oauth.keys().authenticate(presented, HOME).await.unwrap_err();
    }
    let search = AuditSearch { event: Some("key_refused".to_owned()), ..AuditSearch::default() };
    let refused: Vec<Value> = events(&authority, search).await.into_iter().map(|(_, fields, _)| fields).collect();
    let named: Vec<_> = refused.iter().map(|fields| (fields["user"].as_str(), fields["reason"].as_str())).collect();
    let expected =
        [(Some("ann"), Some("the user is disabled")), (Some("bob"), Some("the key was revoked")), (None, None)];
    assert_eq!(named, expected);
}
