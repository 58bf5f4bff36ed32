//! Accounts without a secret: what grants, sessions and tokens rest on beside API keys.

use std::time::Duration;

use lockkeeper::{
    model::{
        Access, AllowedNetworks, BackendId, ClientId, Direct, KeyAccount, KeyKind, KeyRotation, NewAccount, Rights,
        RotatedUser,
    },
    oauth::{AccountEntry, KeyHolder, KeyRefusal},
    support::Clock as _,
};
use serde_json::json;

use crate::support::oauth::{Authority, HOME, approve, browser, parameter};

fn ann() -> KeyAccount {
    KeyAccount::Provider { issuer: "https://idp.example".to_owned(), subject: "ann".to_owned() }
}

async fn add(authority: &Authority, account: KeyAccount, rights: Rights) -> KeyHolder {
    let new = NewAccount {
        account,
        name: "Ann".to_owned(),
        user: None,
        rights,
        expires: None,
        networks: AllowedNetworks::default(),
    };
    let key = authority.oauth.keys().add_account(new).await.unwrap();
    authority.oauth.keys().holder(&key.id).await.unwrap().unwrap()
}

/// Takes a new client of this person to its tokens.
async fn tokens(authority: &Authority, holder: &KeyHolder) -> serde_json::Value {
    let client = authority.client().await;
    let transaction = authority.begin(&Authority::query(&client, &[])).await;
    let authorization = authority.oauth.authorization();
    authorization.keep(&transaction, &browser("b"), holder).await.unwrap();
    let redirect = approve(&authority.oauth, &transaction.id, &browser("b"), holder).await.unwrap();
    let code = parameter(&redirect.location, "code").unwrap();
    authority.redeem(&client, &code).await.json()
}

#[tokio::test]
async fn an_account_is_entered_by_who_it_is_and_never_by_a_text() {
    let authority = Authority::new().await;
    let keys = authority.oauth.keys();
    assert_eq!(keys.enter(&ann()).await.unwrap(), AccountEntry::Unknown);
    let holder = add(&authority, ann(), Rights::all_backends()).await;
    assert_eq!(keys.enter(&ann()).await.unwrap(), AccountEntry::Open(holder.clone()));
    assert!(holder.user.is_of_key() && holder.user_name() == "Ann");
    for other in [
        KeyAccount::Provider { issuer: "https://other.example".to_owned(), subject: "ann".to_owned() },
        KeyAccount::Provider { issuer: "https://idp.example".to_owned(), subject: "Ann".to_owned() },
        KeyAccount::Service { client: ClientId::new("ann") },
    ] {
        assert_eq!(keys.enter(&other).await.unwrap(), AccountEntry::Unknown, "{other:?}");
    }
    // well-formed API keys with the id of the account, among them one whose secret is empty
    let good = authority.key.expose();
    let own = authority.holder.key.as_str();
    let with_id = good.replace(own, holder.key.as_str());
    let body = with_id.rsplit_once('_').unwrap().0;
    for body in [body.to_owned(), format!("lkk_{}_", holder.key)] {
        let forged = format!("{body}_{}", checksum(&body));
        assert!(matches!(keys.authenticate(&forged, HOME).await, Err(KeyRefusal::Unknown)), "{forged}");
        assert!(matches!(authority.oauth.verify(&forged, HOME).await, Err(KeyRefusal::Unknown)), "{forged}");
    }
}

/// The checksum of a key: CRC32 in base62.
fn checksum(body: &str) -> String {
    let mut rest = crc32fast::hash(body.as_bytes());
    let mut digits = Vec::new();
    for _ in 0..6 {
        let digit = u8::try_from(rest % 62).unwrap();
        digits.push(match digit {
            0..=9 => b'0' + digit,
            10..=35 => b'A' + digit - 10,
            _ => b'a' + digit - 36,
        });
        rest /= 62;
    }
    digits.iter().rev().map(|digit| char::from(*digit)).collect()
}

#[tokio::test]
async fn tokens_of_an_account_have_its_rights_and_end_with_it() {
    let authority = Authority::new().await;
    let mut read = Rights::none();
    let git = BackendId::parse("git").unwrap();
    read.backends.allow(&git, Access::ReadOnly);
    let holder = add(&authority, ann(), read.clone()).await;
    let tokens = tokens(&authority, &holder).await;
    let token = tokens["access_token"].as_str().unwrap();
    let verified = authority.oauth.verify(token, HOME).await.unwrap();
    assert_eq!((&verified.caller.user, &verified.caller.key), (&holder.user, &Some(holder.key.clone())));
    assert_eq!(verified.caller.rights, read);

    // other rights hold for the same token at once
    assert!(authority.oauth.keys().set_rights(&holder.key, &Rights::all_backends()).await.unwrap());
    assert!(!authority.oauth.keys().set_rights(&holder.key, &Rights::all_backends()).await.unwrap());
    assert!(!verified.revoked.is_cancelled(), "what is only wider ends nothing");
    let wider = authority.oauth.verify(token, HOME).await.unwrap();
    assert_eq!(wider.caller.rights.backends.access(&git), Some(Access::Full));
    assert!(authority.oauth.keys().set_rights(&holder.key, &read).await.unwrap());
    assert!(wider.revoked.is_cancelled() && verified.revoked.is_cancelled(), "narrower ones end what is open");
    let verified = authority.oauth.verify(token, HOME).await.unwrap();
    assert_eq!(verified.caller.rights, read);

    let holder = authority.oauth.keys().holder(&holder.key).await.unwrap().unwrap();
    assert_eq!(authority.oauth.grants().within(&holder).await.unwrap().len(), 1);
    assert!(authority.oauth.keys().revoke(&holder.key).await.unwrap());
    assert!(verified.revoked.is_cancelled());
    assert!(matches!(authority.oauth.verify(token, HOME).await, Err(KeyRefusal::Unknown)));
    assert_eq!(authority.oauth.keys().enter(&ann()).await.unwrap(), AccountEntry::Ended(holder.key.clone()));
    assert!(authority.oauth.keys().holder(&holder.key).await.unwrap().is_none(), "its browser sessions end");

    // the operator may let the person in again, under a new account
    let again = add(&authority, ann(), Rights::none()).await;
    assert_ne!(again.key, holder.key);
    assert_eq!(authority.oauth.keys().enter(&ann()).await.unwrap(), AccountEntry::Open(again));
}

#[tokio::test]
async fn an_account_exists_once_expires_and_is_never_rotated() {
    let authority = Authority::new().await;
    let keys = authority.oauth.keys();
    let expires = Some(authority.clock.now() + Duration::from_mins(1));
    let account = KeyAccount::Service { client: ClientId::new("nightly") };
    let new = NewAccount {
        account: account.clone(),
        name: " nightly ".to_owned(),
        user: None,
        rights: Rights::none(),
        expires,
        networks: AllowedNetworks::default(),
    };
    let key = keys.add_account(new.clone()).await.unwrap();
    assert_eq!((key.name.as_str(), key.kind.direct()), ("nightly", Direct::Refused));
    assert!(keys.add_account(new).await.is_err(), "a second one");
    let rotation = KeyRotation { overlap: Duration::ZERO, user: RotatedUser::Same, expires: None };
    assert!(keys.rotate(&key.id, rotation).await.unwrap().is_none());
    assert!(matches!(keys.enter(&account).await.unwrap(), AccountEntry::Open(_)));
    authority.oauth.sync().await.unwrap();
    let listed = keys.list().await.unwrap();
    let listed = listed.iter().find(|listed| listed.id == key.id).unwrap();
    assert_eq!(listed.kind, KeyKind::Account(account.clone()));
    assert_eq!(listed.last_used, Some(authority.clock.now()));
    authority.clock.advance(Duration::from_mins(1));
    assert_eq!(keys.enter(&account).await.unwrap(), AccountEntry::Ended(key.id));
    assert_eq!(json!(listed.user), json!(format!("key:{}", listed.id)));
}
