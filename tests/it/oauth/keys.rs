//! API keys: creation, use, limits, revocation; also by another process.

use std::{net::IpAddr, sync::Arc, time::Duration};

use lockkeeper::{
    model::{AllowedNetworks, Direct, KeyKind, NewKey, Rights, UserId},
    oauth::{KeyRefusal, MasterKeySource, OAuth, OAuthError, OAuthSettings},
    storage::Storage,
    support::{Clock as _, ManualClock, OsRandom, Secret},
};

use crate::support::oauth::{Authority, HOME, ISSUER};

fn from(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

#[tokio::test]
async fn the_first_key_is_created_once() {
    let clock = Arc::new(ManualClock::default());
    let storage = crate::support::empty_storage().await;
    let oauth = OAuth::open(storage, clock, Arc::new(OsRandom), OAuthSettings::new(ISSUER)).await.unwrap();
    let key = oauth.keys().first().await.unwrap().unwrap();
    let holder = oauth.keys().authenticate(key.expose(), HOME).await.unwrap();
    assert_eq!(holder.user.as_str(), "owner");
    assert!(holder.rights.admin && holder.kind == KeyKind::Secret(Direct::Refused));
    assert!(oauth.keys().first().await.unwrap().is_none());
}

#[tokio::test]
async fn n_068_every_wrong_key_is_refused_alike() {
    // N-68
    let authority = Authority::new().await;
    let new = NewKey {
        name: "short".to_owned(),
        user: Some(UserId::new("ada")),
        rights: Rights::none(),
        direct: Direct::Refused,
        expires: Some(authority.clock.now() + Duration::from_mins(1)),
        networks: AllowedNetworks::default(),
    };
    let (_, expired) = authority.oauth.keys().create(new).await.unwrap();
    let (revoked, holder) = Authority::key(&authority.oauth, "ada", Rights::none()).await;
    authority.oauth.keys().revoke(&holder.key).await.unwrap();
    authority.clock.advance(Duration::from_mins(1));
    let good = authority.key.expose();
    let truncated = &good[..good.len() - 1];
    for wrong in ["", "wrong", truncated, expired.expose(), revoked.expose()] {
        let refusal = authority.oauth.keys().authenticate(wrong, HOME).await.unwrap_err();
        assert!(matches!(refusal, KeyRefusal::Unknown), "{refusal}");
    }
}

#[tokio::test]
async fn oa_127_a_wrong_key_is_rate_limited_and_a_valid_key_always_passes() {
    // OA-127
    let authority = Authority::new().await;
    for _ in 0..10 {
        let refusal = authority.oauth.keys().authenticate("lkk_guess", from(1)).await.unwrap_err();
        assert!(matches!(refusal, KeyRefusal::Unknown));
    }
    let refusal = authority.oauth.keys().authenticate("lkk_guess", from(1)).await.unwrap_err();
    let KeyRefusal::Limited { retry_after } = refusal else { panic!("{refusal}") };
    let good = authority.key.expose();
    assert!(authority.oauth.keys().authenticate(good, from(1)).await.is_ok(), "the owner behind the same address");
    let refusal = authority.oauth.keys().authenticate("lkk_guess", from(1)).await.unwrap_err();
    assert!(matches!(refusal, KeyRefusal::Limited { .. }), "a success resets nothing");
    assert!(matches!(authority.oauth.keys().authenticate("lkk_guess", from(2)).await, Err(KeyRefusal::Unknown)));
    authority.clock.advance(retry_after);
    assert!(matches!(authority.oauth.keys().authenticate("lkk_guess", from(1)).await, Err(KeyRefusal::Unknown)));
}

#[tokio::test]
async fn concurrent_wrong_keys_are_answered_up_to_the_limit() {
    // OA-127; on a store that makes each of them wait
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::open(&folder.path().join("lockkeeper.db")).await.unwrap();
    let authority = Authority::on(storage, Authority::settings(), 1).await;
    let other = Authority::new().await;
    let mut unknown: Vec<Secret> = Vec::new();
    for _ in 0..40 {
        unknown.push(Authority::key(&other.oauth, "eve", Rights::none()).await.0);
    }
    let guesses = unknown.iter().map(|key| authority.oauth.keys().authenticate(key.expose(), from(1)));
    let refusals = futures_util::future::join_all(guesses).await;
    let limited = refusals.iter().filter(|refusal| matches!(refusal, Err(KeyRefusal::Limited { .. }))).count();
    assert_eq!((refusals.len(), limited), (40, 30));
}

#[tokio::test]
async fn logins_and_bearers_are_counted_apart() {
    let authority = Authority::new().await;
    for _ in 0..20 {
        authority.oauth.verify("lkk_old", from(1)).await.unwrap_err();
    }
    assert!(matches!(authority.oauth.verify("lkk_old", from(1)).await, Err(KeyRefusal::Limited { .. })));
    assert!(matches!(authority.oauth.keys().authenticate("lkk_typo", from(1)).await, Err(KeyRefusal::Unknown)));
    assert!(authority.oauth.verify(authority.key.expose(), from(1)).await.is_ok());
}

#[tokio::test]
async fn guesses_at_one_key_id_from_many_addresses_get_growing_delays() {
    // OA-127
    let authority = Authority::new().await;
    let (revoked, holder) = Authority::key(&authority.oauth, "ada", Rights::none()).await;
    authority.oauth.keys().revoke(&holder.key).await.unwrap();
    let guess = async |last| match authority.oauth.keys().authenticate(revoked.expose(), from(last)).await {
        Err(KeyRefusal::Limited { retry_after }) => retry_after.as_secs(),
        Err(KeyRefusal::Unknown) => 0,
        other => panic!("{other:?}"),
    };
    for address in 1..=5 {
        assert_eq!(guess(address).await, 0);
    }
    assert_eq!(guess(6).await, 30);
    authority.clock.advance(Duration::from_secs(30));
    assert_eq!(guess(7).await, 60);
    assert_eq!(guess(8).await, 60, "what comes during a delay does not prolong it");
    assert!(authority.oauth.keys().authenticate(authority.key.expose(), from(6)).await.is_ok());
}

#[tokio::test]
async fn oa_126_a_key_shows_when_it_was_last_used() {
    let authority = Authority::new().await;
    authority.oauth.sync().await.unwrap();
    let keys = authority.oauth.keys().list().await.unwrap();
    assert_eq!(keys[0].last_used, Some(authority.clock.now()));
}

#[tokio::test]
async fn a_revocation_by_another_process_takes_effect_within_a_second() {
    // OA-131
    let folder = tempfile::tempdir().unwrap();
    let process = async || {
        let storage = Storage::open(&folder.path().join("lockkeeper.db")).await.unwrap();
        let master_key = MasterKeySource::File(folder.path().join("master.key"));
        let settings = OAuthSettings { master_key, ..OAuthSettings::new(ISSUER) };
        OAuth::open(storage, Arc::new(ManualClock::default()), Arc::new(OsRandom), settings).await.unwrap()
    };
    let gateway = process().await;
    let (key, holder) = Authority::key(&gateway, "ada", Rights::all_backends()).await;
    let admitted = gateway.verify(key.expose(), HOME).await.unwrap();
    let cancel = tokio_util::sync::CancellationToken::new();
    let watching = gateway.watch_revocations(cancel.clone());
    let command = async {
        assert!(process().await.keys().revoke(&holder.key).await.unwrap());
        tokio::time::timeout(Duration::from_mins(1), admitted.revoked.cancelled()).await.unwrap();
        cancel.cancel();
    };
    tokio::join!(watching, command);
    assert!(matches!(gateway.verify(key.expose(), HOME).await, Err(KeyRefusal::Unknown)));
}

#[tokio::test]
async fn data_survives_a_restart_and_needs_the_master_key() {
    let folder = tempfile::tempdir().unwrap();
    let start = async |master_key| {
        let storage = Storage::open(&folder.path().join("lockkeeper.db")).await.unwrap();
        let settings = OAuthSettings { master_key, ..OAuthSettings::new(ISSUER) };
        OAuth::open(storage, Arc::new(ManualClock::default()), Arc::new(OsRandom), settings).await
    };
    let file = MasterKeySource::File(folder.path().join("master.key"));
    let key = start(file.clone()).await.unwrap().keys().first().await.unwrap().unwrap();
    assert!(start(file).await.unwrap().keys().authenticate(key.expose(), HOME).await.is_ok());
    let refused = start(MasterKeySource::Ephemeral).await.unwrap_err();
    assert!(matches!(refused, OAuthError::Sealed(_)), "{refused}");
}
