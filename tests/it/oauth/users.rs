//! Users of keys, and the grants that a key sees and ends.

use std::time::Duration;

use http::StatusCode;
use lockkeeper::{
    model::{
        Access, AllowedNetworks, ApiKey, BackendId, ClientId, Direct, KeyRotation, NewKey, Rights, RotatedUser, UserId,
    },
    oauth::{KeyHolder, StoreOutcome},
    support::{Clock as _, Secret},
};
use serde_json::{Value, json};

use crate::support::oauth::{Authority, CALLBACK, HOME, VERIFIER, approve, browser, parameter};

const OVERLAP: Duration = Duration::from_hours(24);

impl Authority {
    /// A new key and its holder.
    async fn key_of(&self, name: &str, user: Option<&str>, rights: Rights) -> (ApiKey, Secret, KeyHolder) {
        let (name, user) = (name.to_owned(), user.map(UserId::new));
        let new =
            NewKey { name, user, rights, direct: Direct::Allowed, expires: None, networks: AllowedNetworks::default() };
        let (key, secret) = self.oauth.keys().create(new).await.unwrap();
        let holder = self.oauth.keys().authenticate(secret.expose(), HOME).await.unwrap();
        (key, secret, holder)
    }

    /// The tokens of this client after a login of the holder, with the redirect URI `redirect`.
    async fn connect(&self, holder: &KeyHolder, client: &str, redirect: &str) -> Value {
        let browser = browser("a");
        let transaction = self.begin(&Self::query(client, &[("redirect_uri", redirect)])).await;
        let kept = self.oauth.authorization().keep(&transaction, &browser, holder).await.unwrap();
        assert!(matches!(kept, StoreOutcome::Waiting), "{kept:?}");
        let answer = approve(&self.oauth, &transaction.id, &browser, holder).await.unwrap();
        let code = parameter(&answer.location, "code").unwrap();
        let form = [("grant_type", "authorization_code"), ("client_id", client), ("code", &*code)];
        let answer = self.token(&[&form[..], &[("code_verifier", VERIFIER)]].concat()).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        answer.json()
    }

    /// An approval whose code is never redeemed.
    async fn approve_in_vain(&self, holder: &KeyHolder, client: &str) {
        let (browser, transaction) = (browser("a"), self.begin(&Self::query(client, &[])).await);
        self.oauth.authorization().keep(&transaction, &browser, holder).await.unwrap();
        approve(&self.oauth, &transaction.id, &browser, holder).await.unwrap();
    }

    async fn opens(&self, tokens: &Value) -> bool {
        self.oauth.verify(tokens["access_token"].as_str().unwrap(), HOME).await.is_ok()
    }

    /// The successor of `old`, and its holder.
    async fn rotate(&self, old: &ApiKey, overlap: Duration, user: RotatedUser) -> (Secret, KeyHolder) {
        let rotation = KeyRotation { overlap, user, expires: None };
        let (_, secret) = self.oauth.keys().rotate(&old.id, rotation).await.unwrap().unwrap();
        let holder = self.oauth.keys().authenticate(secret.expose(), HOME).await.unwrap();
        (secret, holder)
    }
}

fn git(access: Access) -> Rights {
    let mut rights = Rights::none();
    rights.backends.allow(&BackendId::parse("git").unwrap(), access);
    rights
}

#[tokio::test]
async fn a_key_without_a_user_is_a_user_of_its_own() {
    let authority = Authority::new().await;
    let (one, _, holder) = authority.key_of("ann", None, Rights::all_backends()).await;
    let (two, ..) = authority.key_of("ann", None, Rights::all_backends()).await;
    let (joined, _, ann) = authority.key_of("laptop", Some("ann"), Rights::all_backends()).await;
    assert_eq!(one.user, UserId::of_key(&one.id));
    assert!(one.user != two.user && one.user != joined.user && two.user != joined.user);
    // the name is only for display
    assert_eq!((holder.user_name(), one.user_name()), ("ann", "ann"));
    assert_eq!((ann.user_name(), joined.user_name()), ("ann", "ann"));
    let client = authority.client().await;
    authority.connect(&holder, &client, CALLBACK).await;
    assert_eq!(authority.oauth.grants().within(&holder).await.unwrap().len(), 1);
    assert!(authority.oauth.grants().within(&ann).await.unwrap().is_empty());
    assert_eq!(authority.oauth.grants().revoke_all_within(&ann).await.unwrap(), 0);
}

#[tokio::test]
async fn a_key_sees_and_ends_only_grants_whose_rights_it_has() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let (_, _, wide) = authority.key_of("wide", Some("ann"), Rights::all_backends()).await;
    let (_, _, narrow) = authority.key_of("narrow", Some("ann"), git(Access::Full)).await;
    let (_, _, reader) = authority.key_of("reader", Some("ann"), git(Access::ReadOnly)).await;
    let of_wide = authority.connect(&wide, &client, CALLBACK).await;
    let of_narrow = authority.connect(&narrow, &client, CALLBACK).await;
    let of_reader = authority.connect(&reader, &client, CALLBACK).await;
    for (holder, sees) in [(&wide, 3), (&narrow, 2), (&reader, 1)] {
        assert_eq!(authority.oauth.grants().within(holder).await.unwrap().len(), sees, "{}", holder.name);
    }
    let all = authority.oauth.grants().within(&wide).await.unwrap();
    let widest = all.iter().find(|view| view.grant.key == wide.key).unwrap();
    assert!(!authority.oauth.grants().revoke_within(&narrow, &widest.grant.id).await.unwrap());
    // a logout everywhere ends no more than that
    assert_eq!(authority.oauth.grants().revoke_all_within(&narrow).await.unwrap(), 2);
    assert!(authority.opens(&of_wide).await);
    assert!(!authority.opens(&of_narrow).await && !authority.opens(&of_reader).await);
    assert!(authority.oauth.grants().revoke_within(&wide, &widest.grant.id).await.unwrap());
    assert!(!authority.opens(&of_wide).await);
}

#[tokio::test]
async fn the_twenty_first_person_on_one_client_logs_nobody_out() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let mut people = Vec::new();
    for _ in 0..21 {
        let (_, _, holder) = authority.key_of("laptop", None, Rights::all_backends()).await;
        people.push(authority.connect(&holder, &client, CALLBACK).await);
    }
    for tokens in &people {
        assert!(authority.opens(tokens).await);
    }
}

#[tokio::test]
async fn grants_at_one_redirect_origin_never_evict_those_at_another() {
    // OA-135
    const WEB: &str = "https://claude.ai/callback";
    let authority = Authority::new().await;
    let metadata = json!({ "client_name": "A test", "redirect_uris": [CALLBACK, WEB] });
    let client = authority.register(&metadata).await.json()["client_id"].as_str().unwrap().to_owned();
    let on_the_web = authority.connect(&authority.holder, &client, WEB).await;
    let mut here = Vec::new();
    for port in 7000..7021 {
        authority.clock.advance(Duration::from_secs(1));
        let redirect = format!("http://127.0.0.1:{port}/callback");
        here.push(authority.connect(&authority.holder, &client, &redirect).await);
    }
    assert!(authority.opens(&on_the_web).await);
    // an app may get any port: it is the same origin
    let live: Vec<bool> = futures_util::future::join_all(here.iter().map(|tokens| authority.opens(tokens))).await;
    assert_eq!(live.iter().filter(|live| !**live).count(), 1);
    assert!(!live[0], "the one that lay longest unused goes");
}

#[tokio::test]
async fn unredeemed_approvals_are_evicted_before_used_grants() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let used = authority.connect(&authority.holder, &client, CALLBACK).await;
    authority.clock.advance(Duration::from_secs(1));
    for _ in 0..19 {
        authority.approve_in_vain(&authority.holder, &client).await;
    }
    authority.clock.advance(Duration::from_mins(15));
    authority.connect(&authority.holder, &client, CALLBACK).await;
    assert!(authority.opens(&used).await);
}

#[tokio::test]
async fn a_rotated_key_keeps_its_user_and_its_grants() {
    // OA-134
    let authority = Authority::new().await;
    let client = authority.client().await;
    let (old, old_secret, holder) = authority.key_of("laptop", None, git(Access::Full)).await;
    let tokens = authority.connect(&holder, &client, CALLBACK).await;
    assert!(authority.opens(&tokens).await);
    let direct = authority.oauth.verify(old_secret.expose(), HOME).await.unwrap();
    let (secret, new) = authority.rotate(&old, Duration::ZERO, RotatedUser::Same).await;
    assert!(new.key != old.id && secret.expose() != old_secret.expose());
    assert_eq!((&new.user, &*new.name, &new.rights, &new.kind), (&old.user, "laptop", &old.rights, &old.kind));
    // the old key ends at once, with its streams; its grants continue
    assert!(direct.revoked.is_cancelled());
    assert!(authority.oauth.verify(old_secret.expose(), HOME).await.is_err());
    assert!(authority.opens(&tokens).await);
    let refreshed = authority.refresh(&client, tokens["refresh_token"].as_str().unwrap()).await;
    assert_eq!(refreshed.status, StatusCode::OK, "{}", refreshed.body);
    assert_eq!(authority.oauth.grants().within(&new).await.unwrap()[0].grant.key, new.key);
    // and ends with the new key
    assert!(authority.oauth.keys().revoke(&new.key).await.unwrap());
    assert!(!authority.opens(&refreshed.json()).await);
}

#[tokio::test]
async fn only_a_live_key_is_rotated_and_only_once() {
    let authority = Authority::new().await;
    let (old, ..) = authority.key_of("laptop", None, Rights::none()).await;
    let rotation = || KeyRotation { overlap: OVERLAP, user: RotatedUser::Same, expires: None };
    let (new, _) = authority.oauth.keys().rotate(&old.id, rotation()).await.unwrap().unwrap();
    assert!(authority.oauth.keys().rotate(&old.id, rotation()).await.unwrap().is_none());
    authority.oauth.keys().revoke(&new.id).await.unwrap();
    assert!(authority.oauth.keys().rotate(&new.id, rotation()).await.unwrap().is_none());
    let users: Vec<UserId> = authority.oauth.keys().list().await.unwrap().into_iter().map(|key| key.user).collect();
    assert_eq!(users, [authority.holder.user.clone(), old.user.clone(), old.user], "what failed left no key behind");
}

#[tokio::test]
async fn a_rotated_key_stays_valid_until_the_overlap_ends() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let (old, old_secret, old_holder) = authority.key_of("laptop", None, Rights::all_backends()).await;
    let direct = authority.oauth.verify(old_secret.expose(), HOME).await.unwrap();
    let (secret, new) = authority.rotate(&old, OVERLAP, RotatedUser::Same).await;
    assert!(!direct.revoked.is_cancelled(), "programs go on meanwhile");
    assert!(authority.oauth.verify(old_secret.expose(), HOME).await.is_ok());
    // a grant of the old key belongs to the new one, also after a further rotation
    let tokens = authority.connect(&old_holder, &client, CALLBACK).await;
    let grants = authority.oauth.grants().within(&new).await.unwrap();
    assert_eq!(grants[0].grant.key, new.key);

    authority.clock.advance(OVERLAP);
    authority.oauth.sync().await.unwrap();
    assert!(direct.revoked.is_cancelled(), "its streams end");
    assert!(authority.oauth.verify(old_secret.expose(), HOME).await.is_err());
    assert!(authority.oauth.verify(secret.expose(), HOME).await.is_ok());
    let refreshed = authority.refresh(&client, tokens["refresh_token"].as_str().unwrap()).await;
    assert_eq!(refreshed.status, StatusCode::OK, "{}", refreshed.body);
}

#[tokio::test]
async fn revoking_the_new_key_ends_the_old_one_too() {
    let authority = Authority::new().await;
    let (old, old_secret, _) = authority.key_of("laptop", None, Rights::all_backends()).await;
    let (_, new) = authority.rotate(&old, OVERLAP, RotatedUser::Same).await;
    let direct = authority.oauth.verify(old_secret.expose(), HOME).await.unwrap();
    assert!(authority.oauth.keys().revoke(&new.key).await.unwrap());
    assert!(direct.revoked.is_cancelled());
    assert!(authority.oauth.verify(old_secret.expose(), HOME).await.is_err());
}

#[tokio::test]
async fn a_rotated_key_can_leave_its_user_with_its_grants() {
    let authority = Authority::new().await;
    let client = authority.client().await;
    let (_, _, other) = authority.key_of("desktop", Some("owner"), Rights::all_backends()).await;
    let (old, _, holder) = authority.key_of("laptop", Some("owner"), Rights::all_backends()).await;
    let tokens = authority.connect(&holder, &client, CALLBACK).await;
    assert!(authority.opens(&tokens).await);
    assert_eq!(authority.oauth.grants().within(&other).await.unwrap().len(), 1);
    let (_, parted) = authority.rotate(&old, Duration::ZERO, RotatedUser::Own).await;
    assert_eq!(parted.user, UserId::of_key(&parted.key));
    assert!(authority.oauth.grants().within(&other).await.unwrap().is_empty());
    assert_eq!(authority.oauth.grants().within(&parted).await.unwrap().len(), 1);
    // an access token names its user: the client fetches another, without a login
    assert!(!authority.opens(&tokens).await);
    let refreshed = authority.refresh(&client, tokens["refresh_token"].as_str().unwrap()).await.json();
    let verified = authority.oauth.verify(refreshed["access_token"].as_str().unwrap(), HOME).await.unwrap();
    assert_eq!(verified.caller.user, parted.user);
}

#[tokio::test]
async fn the_end_of_a_rotated_key_stays_unless_another_is_given() {
    let authority = Authority::new().await;
    let end = authority.clock.now() + Duration::from_hours(48);
    let (name, user) = ("short".to_owned(), None);
    let new = NewKey {
        name,
        user,
        rights: Rights::none(),
        direct: Direct::Refused,
        expires: Some(end),
        networks: AllowedNetworks::default(),
    };
    let (old, _) = authority.oauth.keys().create(new).await.unwrap();
    let rotation = KeyRotation { overlap: Duration::ZERO, user: RotatedUser::Same, expires: None };
    let (next, _) = authority.oauth.keys().rotate(&old.id, rotation.clone()).await.unwrap().unwrap();
    assert_eq!(next.expires, Some(end));
    let later = Some(end + Duration::from_hours(1));
    let (last, _) =
        authority.oauth.keys().rotate(&next.id, KeyRotation { expires: later, ..rotation }).await.unwrap().unwrap();
    assert_eq!(last.expires, later);
}

#[tokio::test]
async fn oa_131_the_end_of_a_key_grant_client_or_user_ends_what_a_token_has_open() {
    for way in ["grant", "client", "key", "disabled", "deleted"] {
        let authority = Authority::new().await;
        let (client, tokens) = authority.tokens("/mcp").await;
        let token = tokens["access_token"].as_str().unwrap();
        let verified = authority.oauth.verify(token, HOME).await.unwrap();
        let (oauth, holder) = (&authority.oauth, &authority.holder);
        let done = match way {
            "grant" => oauth.grants().revoke(&holder.user, verified.caller.grant.as_ref().unwrap()).await,
            "client" => oauth.clients().revoke(&ClientId::new(client.as_str())).await,
            "key" => oauth.keys().revoke(&holder.key).await,
            "disabled" => oauth.users().disable(&holder.user).await,
            _ => oauth.users().delete(&holder.user).await.map(|ended| ended.is_some()),
        };
        assert!(done.unwrap(), "{way}");
        assert!(verified.revoked.is_cancelled(), "{way}");
        assert!(authority.oauth.verify(token, HOME).await.is_err(), "{way}");
        let refreshed = authority.refresh(&client, tokens["refresh_token"].as_str().unwrap()).await;
        let error = if way == "client" { "401 invalid_client" } else { "400 invalid_grant" };
        assert_eq!(refreshed.error(), error, "{way}");
    }
}

#[tokio::test]
async fn an_enabled_user_has_the_keys_and_grants_of_before_and_a_deleted_one_none() {
    let authority = Authority::new().await;
    let (client, tokens) = authority.tokens("/mcp").await;
    let (users, user) = (authority.oauth.users(), &authority.holder.user);
    assert!(users.disable(user).await.unwrap());
    assert!(authority.oauth.keys().authenticate(authority.key.expose(), HOME).await.is_err());
    assert_eq!(users.list().await.unwrap()[0].grants, 1);
    assert!(users.list().await.unwrap()[0].disabled.is_some());
    assert!(users.enable(user).await.unwrap());
    assert!(authority.oauth.keys().authenticate(authority.key.expose(), HOME).await.is_ok());
    let refreshed = authority.refresh(&client, tokens["refresh_token"].as_str().unwrap()).await;
    assert_eq!(refreshed.status, StatusCode::OK, "{}", refreshed.body);
    let ended = users.delete(user).await.unwrap().unwrap();
    assert_eq!((ended.keys.len(), ended.apps.len()), (1, 1), "{ended:?}");
    assert!(users.delete(user).await.unwrap().is_none() && !users.enable(user).await.unwrap());
    assert!(users.list().await.unwrap().is_empty());
    assert!(authority.oauth.keys().authenticate(authority.key.expose(), HOME).await.is_err());
    // there was a key, so the next start makes no first one
    assert!(authority.oauth.keys().first().await.unwrap().is_none());
}
