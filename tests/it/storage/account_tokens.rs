//! What users give for servers, in either database: tokens of a login and secrets, of two users.

use lockkeeper::{
    model::{BackendId, Rights, SecretName, UserId},
    storage::{Storage, UpstreamTokenRow},
    support::{Digest, Timestamp},
};

use crate::support::oauth::Authority;

/// The store, with the users ann and bob.
async fn two_users() -> (Storage, UserId, UserId) {
    let storage = crate::support::empty_storage().await;
    let authority = Authority::on(storage.clone(), Authority::settings(), 1).await;
    let (_, ann) = Authority::key(&authority.oauth, "ann", Rights::all_backends()).await;
    let (_, bob) = Authority::key(&authority.oauth, "bob", Rights::all_backends()).await;
    (storage, ann.user, bob.user)
}

#[tokio::test]
async fn a_login_at_a_server_replaces_the_earlier_one_of_the_same_user() {
    let (storage, ann, bob) = two_users().await;
    let row = |user: &UserId, sealed: &[u8]| UpstreamTokenRow {
        user: user.clone(),
        backend: BackendId::parse("github").unwrap(),
        server: Digest::sha256("https://mcp.example.com/"),
        issuer: "https://as.example.com".to_owned(),
        resource: None,
        scope: Some("read".to_owned()),
        sealed: sealed.to_vec(),
        connected: Timestamp::from_seconds(1),
        version: 1,
    };
    let tokens = storage.upstream_tokens();
    for login in [row(&ann, b"first"), row(&bob, b"his"), row(&ann, b"second")] {
        tokens.set(&login).await.unwrap();
    }
    for (user, sealed, version) in [(&ann, &b"second"[..], 2), (&bob, b"his", 1)] {
        let found = tokens.list(Some(user)).await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].sealed, found[0].version), (sealed, version));
    }
}

#[tokio::test]
async fn a_secret_is_stored_only_over_the_one_that_was_looked_up() {
    let (storage, ann, bob) = two_users().await;
    let (secrets, name, now) = (storage.user_secrets(), SecretName::parse("KEY").unwrap(), Timestamp::from_seconds(1));
    assert!(secrets.set(&ann, &name, b"one", None, now).await.unwrap());
    assert!(!secrets.set(&ann, &name, b"two", None, now).await.unwrap(), "both found nothing");
    assert!(!secrets.set(&ann, &name, b"two", Some(b"other"), now).await.unwrap());
    assert_eq!(secrets.lookup(&ann, &name).await.unwrap().as_deref(), Some(&b"one"[..]));
    assert!(secrets.set(&ann, &name, b"two", Some(b"one"), now).await.unwrap());
    assert_eq!(secrets.lookup(&ann, &name).await.unwrap().as_deref(), Some(&b"two"[..]));
    assert_eq!(secrets.lookup(&bob, &name).await.unwrap(), None);
}
