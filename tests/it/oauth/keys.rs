//! API keys: made, presented, limited, revoked; also by another process.

use std::{net::IpAddr, sync::Arc, time::Duration};

use lockkeeper::{
    model::{Direct, NewKey, Rights, UserId},
    oauth::{Error, KeyRefusal, MasterKeySource, OAuth, Settings},
    storage::Storage,
    support::{Clock as _, ManualClock, OsRandom},
};

use crate::support::oauth::{Authority, HOME, ISSUER};

fn from(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

#[tokio::test]
async fn the_first_key_is_made_once() {
    let clock = Arc::new(ManualClock::default());
    let storage = Storage::in_memory().await.unwrap();
    let oauth = OAuth::open(storage, clock, Arc::new(OsRandom), Settings::new(ISSUER)).await.unwrap();
    let key = oauth.first_key().await.unwrap().unwrap();
    let holder = oauth.authenticate_key(key.expose(), HOME).await.unwrap();
    assert_eq!(holder.user.as_str(), "owner");
    assert!(holder.rights.admin && holder.direct == Direct::Refused);
    assert!(oauth.first_key().await.unwrap().is_none());
}

#[tokio::test]
async fn every_wrong_key_is_refused_alike() {
    // N-68
    let authority = Authority::new().await;
    let new = NewKey {
        name: "short".to_owned(),
        user: Some(UserId::new("ada")),
        rights: Rights::none(),
        direct: Direct::Refused,
        expires: Some(authority.clock.now() + Duration::from_mins(1)),
    };
    let (_, expired) = authority.oauth.create_key(new).await.unwrap();
    let (revoked, holder) = Authority::key(&authority.oauth, "ada", Rights::none()).await;
    authority.oauth.revoke_key(&holder.key).await.unwrap();
    authority.clock.advance(Duration::from_mins(1));
    let good = authority.key.expose();
    let truncated = &good[..good.len() - 1];
    for wrong in ["", "wrong", truncated, expired.expose(), revoked.expose()] {
        let refusal = authority.oauth.authenticate_key(wrong, HOME).await.unwrap_err();
        assert!(matches!(refusal, KeyRefusal::Unknown), "{refusal}");
    }
}

#[tokio::test]
async fn a_guesser_is_told_to_wait_and_the_owner_is_not() {
    // OA-127
    let authority = Authority::new().await;
    for _ in 0..10 {
        let refusal = authority.oauth.authenticate_key("lkk_guess", from(1)).await.unwrap_err();
        assert!(matches!(refusal, KeyRefusal::Unknown));
    }
    let good = authority.key.expose();
    let refusal = authority.oauth.authenticate_key(good, from(1)).await.unwrap_err();
    let KeyRefusal::Limited { retry_after } = refusal else { panic!("{refusal}") };
    assert!(authority.oauth.authenticate_key(good, from(2)).await.is_ok());
    authority.clock.advance(retry_after);
    assert!(authority.oauth.authenticate_key(good, from(1)).await.is_ok());
}

#[tokio::test]
async fn a_key_shows_when_it_was_last_used() {
    let authority = Authority::new().await;
    authority.oauth.sync().await.unwrap();
    let keys = authority.oauth.list_keys().await.unwrap();
    assert_eq!(keys[0].last_used, Some(authority.clock.now()));
}

#[tokio::test]
async fn what_another_process_revokes_ends_here_within_a_second() {
    // OA-131
    let folder = tempfile::tempdir().unwrap();
    let process = async || {
        let storage = Storage::open(&folder.path().join("lockkeeper.db")).await.unwrap();
        let master_key = MasterKeySource::File(folder.path().join("master.key"));
        let settings = Settings { master_key, ..Settings::new(ISSUER) };
        OAuth::open(storage, Arc::new(ManualClock::default()), Arc::new(OsRandom), settings).await.unwrap()
    };
    let gateway = process().await;
    let (key, holder) = Authority::key(&gateway, "ada", Rights::all_backends()).await;
    let admitted = gateway.verify(key.expose(), HOME).await.unwrap();
    let cancel = tokio_util::sync::CancellationToken::new();
    let watching = gateway.watch_revocations(cancel.clone());
    let command = async {
        assert!(process().await.revoke_key(&holder.key).await.unwrap());
        tokio::time::timeout(Duration::from_mins(1), admitted.revoked.cancelled()).await.unwrap();
        cancel.cancel();
    };
    tokio::join!(watching, command);
    assert!(matches!(gateway.verify(key.expose(), HOME).await, Err(KeyRefusal::Unknown)));
}

#[tokio::test]
async fn everything_survives_a_restart_and_nothing_opens_without_the_master_key() {
    let folder = tempfile::tempdir().unwrap();
    let start = async |master_key| {
        let storage = Storage::open(&folder.path().join("lockkeeper.db")).await.unwrap();
        let settings = Settings { master_key, ..Settings::new(ISSUER) };
        OAuth::open(storage, Arc::new(ManualClock::default()), Arc::new(OsRandom), settings).await
    };
    let file = MasterKeySource::File(folder.path().join("master.key"));
    let key = start(file.clone()).await.unwrap().first_key().await.unwrap().unwrap();
    assert!(start(file).await.unwrap().authenticate_key(key.expose(), HOME).await.is_ok());
    let refused = start(MasterKeySource::Ephemeral).await.unwrap_err();
    assert!(matches!(refused, Error::Sealed), "{refused}");
}
