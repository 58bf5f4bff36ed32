//! What the operator sees and clears away.

use std::time::Duration;

use lockkeeper::model::ClientId;

use crate::support::oauth::Authority;

#[tokio::test]
async fn what_lapsed_is_cleared_away_and_what_lives_stays() {
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let code = authority.code(&Authority::query(&client, &[])).await;
    authority.clock.advance(Duration::from_hours(2));
    authority.oauth.purge().await.unwrap();
    assert_eq!(authority.redeem(&client, &code).await.error(), "400 invalid_grant");
    let refresh = tokens["refresh_token"].as_str().unwrap();
    assert_eq!(authority.refresh(&client, refresh).await.status.as_u16(), 200);
    assert_eq!(authority.oauth.list_grants().await.unwrap().len(), 1);
    authority.clock.advance(Duration::from_hours(200 * 24));
    authority.oauth.purge().await.unwrap();
    assert!(authority.oauth.list_grants().await.unwrap().is_empty());
    assert_eq!(authority.oauth.list_clients().await.unwrap().len(), 1, "somebody consented to it once");
}

#[tokio::test]
async fn a_revoked_client_loses_its_grants_and_comes_back_by_registering() {
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let id = ClientId::new(client.as_str());
    assert!(authority.oauth.client(&id).await.unwrap().is_some());
    assert!(authority.oauth.revoke_client(&id).await.unwrap());
    assert!(!authority.oauth.revoke_client(&id).await.unwrap());
    // clients register again on this answer
    let refresh = tokens["refresh_token"].as_str().unwrap();
    assert_eq!(authority.refresh(&client, refresh).await.error(), "401 invalid_client");
    assert_eq!(authority.client().await, client);
    assert_eq!(authority.refresh(&client, refresh).await.error(), "400 invalid_grant");
}

#[tokio::test]
async fn a_grant_is_revoked_by_its_owner_alone() {
    let authority = Authority::new().await;
    authority.tokens("/mcp").await;
    let grant = authority.oauth.grants_of(&authority.holder.user).await.unwrap().remove(0).grant;
    let stranger = lockkeeper::model::UserId::new("eve");
    assert!(!authority.oauth.revoke_grant(&stranger, &grant.id).await.unwrap());
    assert!(authority.oauth.grants_of(&stranger).await.unwrap().is_empty());
    assert!(authority.oauth.revoke_grant(&grant.user, &grant.id).await.unwrap());
    assert!(authority.oauth.grants_of(&grant.user).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_grant_that_lay_longest_unused_makes_room_for_the_twenty_first() {
    // OA-135
    let authority = Authority::new().await;
    let (client, first) = authority.tokens("/mcp").await;
    for _ in 0..20 {
        authority.clock.advance(Duration::from_secs(1));
        authority.tokens("/mcp").await;
    }
    let grants = authority.oauth.grants_of(&authority.holder.user).await.unwrap();
    assert_eq!(grants.len(), 20);
    let refresh = first["refresh_token"].as_str().unwrap();
    assert_eq!(authority.refresh(&client, refresh).await.error(), "400 invalid_grant");
}
