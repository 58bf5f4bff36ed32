//! Rotation of the keys that sign access tokens.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use lockkeeper::{
    oauth::{
        KeyRefusal, MasterKeySource, OAuthSettings,
        signing::{RotationStart, SigningKeyUse},
    },
    support::Secret,
};
use serde_json::Value;

use crate::support::oauth::{Authority, HOME};

const MINUTE: Duration = Duration::from_mins(1);

/// The ids in the published key set, in the order in which the keys sign.
async fn published(authority: &Authority) -> Vec<String> {
    let keys = authority.get("/oauth/jwks").await.json()["keys"].clone();
    keys.as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
}

fn key_of(token: &str) -> String {
    let header = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
    serde_json::from_slice::<Value>(&header).unwrap()["kid"].as_str().unwrap().to_owned()
}

async fn token(authority: &Authority) -> String {
    authority.access_token("/mcp").await
}

#[tokio::test]
async fn oa_101_a_new_key_is_published_before_it_signs_and_the_old_one_verifies_on() {
    let authority = Authority::new().await;
    let old = token(&authority).await;
    let next = authority.oauth.signing_keys().rotate(RotationStart::Announced).await.unwrap();
    authority.oauth.sync().await.unwrap();
    assert_eq!(published(&authority).await, [key_of(&old), next.kid.clone()]);
    assert_eq!(key_of(&token(&authority).await), key_of(&old));
    authority.clock.advance(10 * MINUTE);
    let new = token(&authority).await;
    assert_eq!(key_of(&new), next.kid);
    for token in [&old, &new] {
        authority.oauth.verify(token, HOME).await.unwrap();
    }
}

#[tokio::test]
async fn oa_101_a_rotation_that_waits_is_not_begun_again() {
    let authority = Authority::new().await;
    let keys = authority.oauth.signing_keys();
    let next = keys.rotate(RotationStart::Announced).await.unwrap();
    assert_eq!(keys.rotate(RotationStart::Announced).await.unwrap(), next);
    let soon = keys.rotate(RotationStart::AtOnce).await.unwrap();
    assert_ne!(soon, next);
    let uses: Vec<_> = keys.list().await.unwrap().into_iter().map(|key| key.used).collect();
    assert_eq!(uses, [SigningKeyUse::Active, SigningKeyUse::Next, SigningKeyUse::Next]);
}

#[tokio::test]
async fn oa_101_the_keys_rotate_by_themselves_after_90_days() {
    let authority = Authority::new().await;
    let first = published(&authority).await;
    authority.clock.advance((90 * 24 * 60 - 1) * MINUTE);
    authority.oauth.purge().await.unwrap();
    assert_eq!(authority.oauth.signing_keys().list().await.unwrap().len(), 1);
    authority.clock.advance(MINUTE);
    for _ in 0..2 {
        authority.oauth.purge().await.unwrap();
        authority.oauth.sync().await.unwrap();
    }
    let both = published(&authority).await;
    assert_eq!((both.len(), &both[..1]), (2, &first[..]));
    authority.clock.advance(10 * MINUTE);
    assert_eq!(key_of(&token(&authority).await), both[1]);
}

#[tokio::test]
async fn n_132_a_retired_key_verifies_until_its_last_token_has_expired() {
    let authority = Authority::new().await;
    let keys = authority.oauth.signing_keys();
    let old = published(&authority).await;
    keys.rotate(RotationStart::AtOnce).await.unwrap();
    authority.oauth.sync().await.unwrap();
    authority.clock.advance(24 * 60 * MINUTE);
    assert!(matches!(keys.list().await.unwrap()[0].used, SigningKeyUse::Retired(_)));
    assert_eq!(published(&authority).await[..1], old[..]);
    authority.clock.advance(2 * MINUTE);
    assert_eq!(published(&authority).await.len(), 1);
    authority.oauth.purge().await.unwrap();
    let left: Vec<_> = keys.list().await.unwrap().into_iter().map(|key| key.used).collect();
    assert_eq!(left, [SigningKeyUse::Active]);
}

#[tokio::test]
async fn oa_101_a_withdrawn_key_ends_its_tokens_in_every_process_and_no_others() {
    let storage = crate::support::empty_storage().await;
    let master_key = MasterKeySource::Given(Secret::new("A".repeat(43)));
    let settings = OAuthSettings { master_key, ..Authority::settings() };
    let one = Authority::on(storage.clone(), settings.clone(), 1).await;
    let two = Authority::on(storage, settings, 2).await;
    let old = token(&one).await;
    let next = one.oauth.signing_keys().rotate(RotationStart::AtOnce).await.unwrap();
    for process in [&one, &two] {
        process.oauth.sync().await.unwrap();
        process.clock.advance(Duration::from_secs(5));
    }
    let new = token(&one).await;
    assert_eq!(key_of(&new), next.kid);
    let open = two.oauth.verify(&old, HOME).await.unwrap();
    assert!(one.oauth.signing_keys().withdraw(&key_of(&old)).await.unwrap());
    assert!(!one.oauth.signing_keys().withdraw(&key_of(&old)).await.unwrap());
    for process in [&one, &two] {
        process.oauth.sync().await.unwrap();
        assert!(matches!(process.oauth.verify(&old, HOME).await, Err(KeyRefusal::Unknown)));
        process.oauth.verify(&new, HOME).await.unwrap();
        assert_eq!(published(process).await, std::slice::from_ref(&next.kid));
    }
    assert!(open.revoked.is_cancelled());
}

#[tokio::test]
async fn oa_101_a_new_key_signs_at_once_when_the_only_one_is_withdrawn() {
    let authority = Authority::new().await;
    let old = token(&authority).await;
    assert!(authority.oauth.signing_keys().withdraw(&key_of(&old)).await.unwrap());
    authority.oauth.sync().await.unwrap();
    let new = token(&authority).await;
    assert_ne!(key_of(&new), key_of(&old));
    authority.oauth.verify(&new, HOME).await.unwrap();
    assert!(authority.oauth.verify(&old, HOME).await.is_err());
}
