//! Administration: lists, revocation, and deletion.

use std::time::Duration;

use lockkeeper::model::ClientId;
use serde_json::json;

use crate::support::oauth::{Authority, CALLBACK};

#[tokio::test]
async fn oa_136_expired_rows_are_purged_and_live_ones_stay() {
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let code = authority.code(&Authority::query(&client, &[])).await;
    authority.clock.advance(Duration::from_hours(2));
    authority.oauth.purge().await.unwrap();
    assert_eq!(authority.redeem(&client, &code).await.error(), "400 invalid_grant");
    let refresh = tokens["refresh_token"].as_str().unwrap();
    assert_eq!(authority.refresh(&client, refresh).await.status.as_u16(), 200);
    assert_eq!(authority.oauth.grants().list().await.unwrap().len(), 1);
    authority.clock.advance(Duration::from_hours(200 * 24));
    authority.oauth.purge().await.unwrap();
    assert!(authority.oauth.grants().list().await.unwrap().is_empty());
    assert_eq!(authority.oauth.clients().list().await.unwrap().len(), 1, "somebody consented to it once");
}

#[tokio::test]
async fn oa_041_a_revoked_client_loses_its_grants_and_cannot_register_again_until_it_is_restored() {
    // OA-41: an identical registration has the same id, so it must not undo what the operator did
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let id = ClientId::new(client.as_str());
    assert!(authority.oauth.clients().find(&id).await.unwrap().is_some());
    assert!(authority.oauth.clients().revoke(&id).await.unwrap());
    assert!(!authority.oauth.clients().revoke(&id).await.unwrap());
    // clients register again on this answer
    let refresh = tokens["refresh_token"].as_str().unwrap();
    assert_eq!(authority.refresh(&client, refresh).await.error(), "401 invalid_client");
    let again = json!({ "client_name": "A test", "redirect_uris": [CALLBACK] });
    assert_eq!(authority.register(&again).await.error(), "403 access_denied");
    authority.clock.advance(Duration::from_hours(100 * 24));
    authority.oauth.purge().await.unwrap();
    assert_eq!(authority.register(&again).await.error(), "403 access_denied");
    assert!(authority.oauth.clients().list().await.unwrap().is_empty());
    assert_eq!(authority.oauth.clients().list_revoked().await.unwrap().len(), 1);
    assert!(authority.oauth.clients().restore(&id).await.unwrap());
    assert!(!authority.oauth.clients().restore(&id).await.unwrap());
    assert_eq!(authority.client().await, client);
    assert_eq!(authority.refresh(&client, refresh).await.error(), "400 invalid_grant");
}

#[tokio::test]
async fn a_revoked_client_that_has_a_secret_cannot_register_again_either() {
    let authority = Authority::new().await;
    let metadata = json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "client_secret_basic" });
    let [one, two] = [authority.register(&metadata).await.json(), authority.register(&metadata).await.json()];
    assert_ne!(one["client_id"], two["client_id"], "each has a secret of its own");
    assert!(authority.oauth.clients().revoke(&ClientId::new(one["client_id"].as_str().unwrap())).await.unwrap());
    assert_eq!(authority.register(&metadata).await.error(), "403 access_denied");
    assert_eq!(authority.oauth.clients().list().await.unwrap().len(), 1, "another registration is not touched");
}

#[tokio::test]
async fn oa_043_a_client_without_consent_is_deleted_a_day_after_its_last_registration() {
    // OA-43
    let authority = Authority::new().await;
    authority.tokens("/mcp").await;
    let metadata = |name: &str| json!({ "client_name": name, "redirect_uris": [CALLBACK] });
    let count = async || authority.oauth.clients().list().await.unwrap().len();
    for name in ["one", "two"] {
        assert_eq!(authority.register(&metadata(name)).await.status, 201);
    }
    authority.clock.advance(Duration::from_hours(23));
    assert_eq!(authority.register(&metadata("two")).await.status, 201);
    authority.oauth.purge().await.unwrap();
    assert_eq!(count().await, 3);
    authority.clock.advance(Duration::from_hours(2));
    authority.oauth.purge().await.unwrap();
    assert_eq!(count().await, 2);
    authority.clock.advance(Duration::from_hours(23));
    authority.oauth.purge().await.unwrap();
    assert_eq!(count().await, 1, "somebody consented to it");
}

#[tokio::test]
async fn a_grant_is_revoked_by_its_owner_alone() {
    let authority = Authority::new().await;
    authority.tokens("/mcp").await;
    let grant = authority.oauth.grants().of(&authority.holder.user).await.unwrap().remove(0).grant;
    let stranger = lockkeeper::model::UserId::new("eve");
    assert!(!authority.oauth.grants().revoke(&stranger, &grant.id).await.unwrap());
    assert!(authority.oauth.grants().of(&stranger).await.unwrap().is_empty());
    assert!(authority.oauth.grants().revoke(&grant.user, &grant.id).await.unwrap());
    assert!(authority.oauth.grants().of(&grant.user).await.unwrap().is_empty());
}

#[tokio::test]
async fn oa_135_the_least_recently_used_grant_is_evicted_for_the_twenty_first() {
    // OA-135
    let authority = Authority::new().await;
    let (client, first) = authority.tokens("/mcp").await;
    for _ in 0..20 {
        authority.clock.advance(Duration::from_secs(1));
        authority.tokens("/mcp").await;
    }
    let grants = authority.oauth.grants().of(&authority.holder.user).await.unwrap();
    assert_eq!(grants.len(), 20);
    let refresh = first["refresh_token"].as_str().unwrap();
    assert_eq!(authority.refresh(&client, refresh).await.error(), "400 invalid_grant");
}
