//! Refresh: rotation, grace period, reuse detection.

use std::time::Duration;

use futures_util::future::join_all;
use http::StatusCode;
use lockkeeper::{
    model::AuthPolicy,
    oauth::{MasterKeySource, OAuthSettings},
    storage::{NewRefreshToken, Rotation, Storage},
    support::{Clock as _, Digest},
};
use serde_json::Value;

use crate::support::{
    data_folder::DataFolder,
    oauth::{Authority, HOME},
};

fn text(answer: &Value, name: &str) -> String {
    answer[name].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn oa_089_every_refresh_rotates_and_can_happen_at_once() {
    // OA-89, OA-93
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let first = text(&tokens, "refresh_token");
    let second = authority.refresh(&client, &first).await.json();
    assert_ne!(text(&second, "refresh_token"), first);
    assert_ne!(second["access_token"], tokens["access_token"]);
    let third = authority.refresh(&client, &text(&second, "refresh_token")).await;
    assert_eq!(third.status, StatusCode::OK);
}

#[tokio::test]
async fn n_097_concurrent_processes_get_the_same_successor() {
    // N-97
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let shared = text(&tokens, "refresh_token");
    let answers = join_all((0..5).map(|_| authority.refresh(&client, &shared))).await;
    let successors: Vec<String> = answers.iter().map(|answer| text(&answer.json(), "refresh_token")).collect();
    assert!(successors.iter().all(|token| *token == successors[0]), "{successors:?}");
    authority.clock.advance(Duration::from_secs(59));
    assert_eq!(text(&authority.refresh(&client, &shared).await.json(), "refresh_token"), successors[0]);
}

#[tokio::test]
async fn two_gateways_on_one_database_agree_on_the_successor() {
    let folder = DataFolder::new();
    let process = async |seed| {
        let storage = Storage::open(&folder.path().join("lockkeeper.db")).await.unwrap();
        let master_key = MasterKeySource::File(folder.path().join("master.key"));
        Authority::on(storage, OAuthSettings { master_key, ..Authority::settings() }, seed).await
    };
    let (one, two) = (process(1).await, process(2).await);
    let (client, tokens) = one.tokens("/mcp").await;
    let shared = text(&tokens, "refresh_token");
    let answers = join_all((0..8).map(|n| if n % 2 == 0 { &one } else { &two }.refresh(&client, &shared))).await;
    let successors: Vec<String> = answers.iter().map(|answer| text(&answer.json(), "refresh_token")).collect();
    assert!(successors.iter().all(|token| *token == successors[0]), "{successors:?}");
    // each process accepts the other's tokens
    let access = text(&answers[0].json(), "access_token");
    assert_eq!(two.oauth.verify(&access, HOME).await.unwrap().caller.user, one.holder.user);
    // each process applies the other's revocations
    one.oauth.grants().revoke_all(&one.holder.user).await.unwrap();
    assert_eq!(two.refresh(&client, &successors[0]).await.error(), "400 invalid_grant");
}

#[tokio::test]
async fn n_098_a_rotated_token_after_the_grace_period_revokes_the_family() {
    // N-98
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let old = text(&tokens, "refresh_token");
    let new = authority.refresh(&client, &old).await.json();
    let newest = authority.refresh(&client, &text(&new, "refresh_token")).await.json();
    let access = authority.oauth.verify(&text(&newest, "access_token"), HOME).await.unwrap();
    authority.clock.advance(Duration::from_secs(61));
    assert_eq!(authority.refresh(&client, &old).await.error(), "400 invalid_grant");
    assert!(access.revoked.is_cancelled(), "its streams are closed");
    assert_eq!(authority.refresh(&client, &text(&newest, "refresh_token")).await.error(), "400 invalid_grant");
    assert!(authority.oauth.verify(&text(&newest, "access_token"), HOME).await.is_err());
}

#[tokio::test]
async fn oa_091_a_lost_response_is_repeated_while_its_tokens_are_unused() {
    // OA-91
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let old = text(&tokens, "refresh_token");
    let lost = text(&authority.refresh(&client, &old).await.json(), "refresh_token");
    authority.clock.advance(Duration::from_hours(1));
    let again = authority.refresh(&client, &old).await;
    assert_eq!(again.status, StatusCode::OK);
    let again = text(&again.json(), "refresh_token");
    assert_ne!(again, lost);
    // the lost token turns up after all: two parties have the family
    assert_eq!(authority.refresh(&client, &lost).await.error(), "400 invalid_grant");
    assert_eq!(authority.refresh(&client, &again).await.error(), "400 invalid_grant");
}

#[tokio::test]
async fn a_used_access_token_proves_that_the_response_arrived() {
    // OA-91
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let old = text(&tokens, "refresh_token");
    let arrived = authority.refresh(&client, &old).await.json();
    authority.oauth.verify(&text(&arrived, "access_token"), HOME).await.unwrap();
    authority.clock.advance(Duration::from_secs(61));
    assert_eq!(authority.refresh(&client, &old).await.error(), "400 invalid_grant");
}

#[tokio::test]
async fn oa_092_a_withdrawn_successor_ends_its_access_tokens_at_once() {
    // OA-91: another process has the access token of the lost answer in its cache, and its use is not stored yet
    let folder = DataFolder::new();
    let process = async |seed| {
        let storage = Storage::open(&folder.path().join("lockkeeper.db")).await.unwrap();
        let master_key = MasterKeySource::File(folder.path().join("master.key"));
        Authority::on(storage, OAuthSettings { master_key, ..Authority::settings() }, seed).await
    };
    let (one, two) = (process(1).await, process(2).await);
    let (client, tokens) = one.tokens("/mcp").await;
    let old = text(&tokens, "refresh_token");
    let lost = one.refresh(&client, &old).await.json();
    let used = two.oauth.verify(&text(&lost, "access_token"), HOME).await.unwrap();
    for process in [&one, &two] {
        process.clock.advance(Duration::from_secs(61));
    }
    let again = one.refresh(&client, &old).await.json();
    assert!(one.oauth.verify(&text(&lost, "access_token"), HOME).await.is_err());
    assert!(!used.revoked.is_cancelled());
    two.oauth.sync().await.unwrap();
    assert!(used.revoked.is_cancelled(), "its streams end");
    assert!(two.oauth.verify(&text(&lost, "access_token"), HOME).await.is_err(), "the cached verdict is void");
    for process in [&one, &two] {
        assert!(process.oauth.verify(&text(&again, "access_token"), HOME).await.is_ok());
        assert!(process.oauth.verify(&text(&tokens, "access_token"), HOME).await.is_ok());
    }
    // OA-92
    assert_eq!(two.refresh(&client, &text(&lost, "refresh_token")).await.error(), "400 invalid_grant");
    assert_eq!(one.refresh(&client, &text(&again, "refresh_token")).await.error(), "400 invalid_grant");
}

#[tokio::test]
async fn a_client_that_refreshes_in_a_loop_is_rate_limited() {
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let mut token = text(&tokens, "refresh_token");
    for _ in 0..60 {
        token = text(&authority.refresh(&client, &token).await.json(), "refresh_token");
    }
    let limited = authority.refresh(&client, &token).await;
    assert_eq!(limited.error(), "429 temporarily_unavailable");
    let wait: u64 = limited.header("retry-after").unwrap().parse().unwrap();
    // another login of the same client is not rate-limited, and this one is not lost
    let (_, others) = authority.tokens("/mcp").await;
    assert_eq!(authority.refresh(&client, &text(&others, "refresh_token")).await.status, StatusCode::OK);
    authority.clock.advance(Duration::from_secs(wait));
    assert_eq!(authority.refresh(&client, &token).await.status, StatusCode::OK);
}

#[tokio::test]
async fn only_the_newest_refresh_tokens_of_a_grant_are_kept() {
    let storage = crate::support::empty_storage().await;
    let authority = Authority::on(storage.clone(), Authority::settings(), 1).await;
    let (_, tokens) = authority.tokens("/mcp").await;
    let grant = authority.oauth.grants().list().await.unwrap().remove(0).grant;
    let first = Digest::sha256(text(&tokens, "refresh_token"));
    let now = authority.clock.now();
    let (mut old, mut digests) = (first, vec![first]);
    for number in 0..1005 {
        let new = NewRefreshToken {
            digest: Digest::sha256(format!("{number}")),
            generation: format!("{number}"),
            expires: grant.expires,
        };
        digests.push(new.digest);
        let rotation = Rotation { grant: grant.id.clone(), old, new, sealed: Vec::new() };
        old = rotation.new.digest;
        assert!(storage.refresh_tokens().rotate(&rotation, now).await.unwrap());
    }
    let mut kept = 0;
    for digest in &digests {
        kept += usize::from(storage.refresh_tokens().lookup(digest).await.unwrap().is_some());
    }
    assert_eq!((digests.len(), kept), (1006, 1000));
    assert!(storage.refresh_tokens().lookup(&first).await.unwrap().is_none());
    assert!(storage.refresh_tokens().lookup(&old).await.unwrap().is_some());
}

#[tokio::test]
async fn a_token_that_is_revoked_again_and_again_is_written_down_once() {
    let storage = crate::support::empty_storage().await;
    let authority = Authority::on(storage.clone(), Authority::settings(), 1).await;
    let (client, tokens) = authority.tokens("/mcp").await;
    for _ in 0..3 {
        let token = text(&tokens, "access_token");
        let answer = authority.form("/oauth/revoke", &[("client_id", &client), ("token", &token)]).await;
        assert_eq!(answer.status, StatusCode::OK);
    }
    assert_eq!(storage.revocations().newest().await.unwrap(), 1);
}

#[tokio::test]
async fn n_100_a_scope_may_be_narrower_never_wider() {
    // N-100
    let authority = Authority::new().await;
    let client = authority.client().await;
    let code = authority.code(&Authority::query(&client, &[("scope", "mcp:git mcp:time")])).await;
    let token = text(&authority.redeem(&client, &code).await.json(), "refresh_token");
    let refresh = async |token: &str, scope: &str| {
        let form = [("grant_type", "refresh_token"), ("client_id", client.as_str())];
        authority.token(&[&form[..], &[("refresh_token", token), ("scope", scope)]].concat()).await
    };
    assert_eq!(refresh(&token, "mcp:use").await.error(), "400 invalid_scope");
    let same = refresh(&token, "mcp:git mcp:time offline_access").await.json();
    assert_eq!(same["scope"], "mcp:git mcp:time");
    let narrow = refresh(&text(&same, "refresh_token"), "mcp:git").await.json();
    assert_eq!(narrow["scope"], "mcp:git");
    let partly = refresh(&text(&narrow, "refresh_token"), "mcp:use mcp:time mcp:admin").await.json();
    assert_eq!(partly["scope"], "mcp:time", "what the grant lacks is dropped, and the answer says so");
    assert_eq!(refresh(&text(&partly, "refresh_token"), "").await.json()["scope"], "mcp:git mcp:time");
}

#[tokio::test]
async fn n_101_one_kind_of_token_is_not_accepted_as_another() {
    // N-101
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    assert_eq!(authority.refresh(&client, &text(&tokens, "access_token")).await.error(), "400 invalid_grant");
    assert!(authority.oauth.verify(&text(&tokens, "refresh_token"), HOME).await.is_err());
}

#[tokio::test]
async fn n_102_a_revoked_key_takes_its_grants_along() {
    // N-102
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let access = authority.oauth.verify(&text(&tokens, "access_token"), HOME).await.unwrap();
    assert!(authority.oauth.keys().revoke(&authority.holder.key).await.unwrap());
    assert!(access.revoked.is_cancelled());
    assert_eq!(authority.refresh(&client, &text(&tokens, "refresh_token")).await.error(), "400 invalid_grant");
    assert!(authority.oauth.grants().of(&authority.holder.user).await.unwrap().is_empty());
}

#[tokio::test]
async fn oa_095_an_unused_refresh_token_expires_and_a_grant_ends_despite_refreshes() {
    // OA-95
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let day = Duration::from_hours(24);
    let mut token = text(&tokens, "refresh_token");
    for _ in 0..8 {
        authority.clock.advance(day * 22);
        token = text(&authority.refresh(&client, &token).await.json(), "refresh_token");
    }
    authority.clock.advance(Duration::from_mins(4 * 24 * 60 - 30));
    let last = authority.refresh(&client, &token).await.json();
    assert_eq!(last["expires_in"], 1800, "never beyond the end of the grant");
    authority.clock.advance(Duration::from_mins(30));
    assert_eq!(authority.refresh(&client, &text(&last, "refresh_token")).await.error(), "400 invalid_grant");
    let (client, tokens) = authority.tokens("/mcp").await;
    authority.clock.advance(day * 30);
    assert_eq!(authority.refresh(&client, &text(&tokens, "refresh_token")).await.error(), "400 invalid_grant");
}

#[tokio::test]
async fn a_changed_lifetime_counts_for_the_next_token() {
    let settings = Authority::settings();
    let policy = settings.policy.clone();
    let authority = Authority::with(settings).await;
    let (client, tokens) = authority.tokens("/mcp").await;
    assert_eq!(tokens["expires_in"], 3_600);
    policy.replace(AuthPolicy { access_token_lifetime: Duration::from_mins(5), ..AuthPolicy::default() });
    let refreshed = authority.refresh(&client, tokens["refresh_token"].as_str().unwrap()).await.json();
    assert_eq!(refreshed["expires_in"], 300);
}
