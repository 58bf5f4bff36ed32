//! Clients that nobody uses, and those that come back.

use std::time::Duration;

use lockkeeper::{model::ClientId, oauth::BeginOutcome};
use serde_json::json;
use url::form_urlencoded;

use crate::support::oauth::{Authority, CALLBACK, FROM};

const DAY: Duration = Duration::from_hours(24);

async fn clients(authority: &Authority) -> usize {
    authority.oauth.clients().list().await.unwrap().len()
}

async fn pass(authority: &Authority, time: Duration) {
    authority.clock.advance(time);
    authority.oauth.purge().await.unwrap();
}

async fn begins(authority: &Authority, client: &str) -> bool {
    let begun = authority.oauth.authorization().begin(&Authority::query(client, &[]), FROM).await;
    matches!(begun, BeginOutcome::Valid(_))
}

#[tokio::test]
async fn oa_043_a_client_without_a_consent_expires_after_a_day_and_comes_back_with_its_id() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    pass(&authority, DAY + Duration::from_secs(1)).await;
    assert_eq!(clients(&authority).await, 0);
    assert_eq!(authority.refresh(&client, "lkr_x").await.error(), "401 invalid_client");
    assert!(begins(&authority, &client).await);
    assert_eq!(clients(&authority).await, 1);
    // an identical registration has the same effect
    pass(&authority, DAY * 2).await;
    assert_eq!((authority.client().await, clients(&authority).await), (client.clone(), 1));
    // nobody came back for 90 days
    pass(&authority, DAY * 2).await;
    pass(&authority, DAY * 91).await;
    assert!(!begins(&authority, &client).await);
}

#[tokio::test]
async fn oa_043_a_client_with_a_live_grant_never_expires_and_90_days_after_its_last_one_it_does() {
    let authority = Authority::new().await;
    let (client, _) = authority.tokens("/mcp").await;
    pass(&authority, DAY * 179).await;
    assert_eq!(clients(&authority).await, 1);
    // the grant ends
    pass(&authority, DAY * 2).await;
    pass(&authority, DAY * 89).await;
    assert_eq!(clients(&authority).await, 1);
    pass(&authority, DAY * 2).await;
    assert_eq!(clients(&authority).await, 0);
    assert_eq!(authority.refresh(&client, "lkr_x").await.error(), "401 invalid_client");
    let query = Authority::query(&client, &[]);
    let code = authority.code(&query).await;
    assert_eq!(authority.redeem(&client, &code).await.status, 200);
}

#[tokio::test]
async fn oa_043_an_expired_client_comes_back_by_each_request_that_asks_a_person_and_by_no_other() {
    const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";
    let authority = Authority::new().await;
    let metadata = json!({
        "redirect_uris": [CALLBACK],
        "grant_types": ["authorization_code", "refresh_token", DEVICE_CODE],
    });
    let client = authority.register(&metadata).await.json()["client_id"].as_str().unwrap().to_owned();
    let id = ("client_id", &*client);
    for grant in [("authorization_code", "code"), ("refresh_token", "refresh_token")] {
        pass(&authority, DAY * 2).await;
        let form = [id, ("grant_type", grant.0), (grant.1, "lkr_x")];
        assert_eq!(authority.token(&form).await.error(), "401 invalid_client");
        assert_eq!(clients(&authority).await, 0, "{grant:?}");
    }
    let device = authority.form("/oauth/device_authorization", &[id]).await;
    assert_eq!((device.status.as_u16(), clients(&authority).await), (200, 1), "{}", device.body);
    pass(&authority, DAY * 2).await;
    assert_eq!(clients(&authority).await, 0);
    let poll = [id, ("grant_type", DEVICE_CODE), ("device_code", "nonsense")];
    assert_eq!((authority.token(&poll).await.error(), clients(&authority).await), ("400 invalid_grant".to_owned(), 1));
    pass(&authority, DAY * 2).await;
    assert_eq!(clients(&authority).await, 0);
    let query = Authority::query(&client, &[]);
    let pairs: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let pushed = authority.form("/oauth/par", &pairs).await;
    assert_eq!((pushed.status.as_u16(), clients(&authority).await), (201, 1), "{}", pushed.body);
}

#[tokio::test]
async fn oa_043_a_client_with_a_secret_and_a_revoked_one_do_not_come_back() {
    let authority = Authority::new().await;
    let metadata = json!({ "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "client_secret_basic" });
    let secret = authority.register(&metadata).await.json()["client_id"].as_str().unwrap().to_owned();
    let public = authority.client().await;
    pass(&authority, DAY * 2).await;
    assert!(!begins(&authority, &secret).await);
    assert!(begins(&authority, &public).await);
    assert!(authority.oauth.clients().revoke(&ClientId::new(public.as_str())).await.unwrap());
    pass(&authority, DAY * 2).await;
    assert!(!begins(&authority, &public).await);
}

#[tokio::test]
async fn oa_134_pruned_clients_are_gone_and_others_stay() {
    let authority = Authority::new().await;
    let (used, _) = authority.tokens("/mcp").await;
    let unused = authority.register(&json!({ "client_name": "B", "redirect_uris": [CALLBACK] })).await;
    let unused = unused.json()["client_id"].as_str().unwrap().to_owned();
    authority.clock.advance(DAY * 2);
    assert_eq!(authority.oauth.clients().prune().await.unwrap(), 1);
    assert!(!begins(&authority, &unused).await);
    assert!(begins(&authority, &used).await);
    assert_eq!(authority.oauth.clients().prune().await.unwrap(), 0);
}
