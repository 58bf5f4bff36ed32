//! Rights that change in place: what ends with narrower ones, and whom wider ones reach.

use std::time::Duration;

use http::StatusCode;
use lockkeeper::{
    model::{Access, AllowedBackends, BackendId, KeyChange, KeyEnd, KeyId, KeyRotation, Rights, RotatedUser},
    oauth::{KeyHolder, StoreOutcome},
    support::{Clock as _, Secret},
};
use serde_json::Value;

use crate::support::oauth::{Authority, HOME, approve, browser, parameter};

fn only(names: &[&str]) -> AllowedBackends {
    AllowedBackends::Only(names.iter().map(|name| ((*name).to_owned(), Access::Full)).collect())
}

fn opening(names: &[&str]) -> KeyChange {
    KeyChange { backends: Some(only(names)), ..KeyChange::default() }
}

impl Authority {
    /// The access token of an app that this holder lets in with these scopes.
    async fn app(&self, holder: &KeyHolder, scope: &str) -> Secret {
        let (client, browser) = (self.client().await, browser("a"));
        let transaction = self.begin(&Self::query(&client, &[("scope", scope)])).await;
        let kept = self.oauth.authorization().keep(&transaction, &browser, holder).await.unwrap();
        assert!(matches!(kept, StoreOutcome::Waiting), "{kept:?}");
        let answer = approve(&self.oauth, &transaction.id, &browser, holder).await.unwrap();
        let answer = self.redeem(&client, &parameter(&answer.location, "code").unwrap()).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        let tokens: Value = answer.json();
        Secret::new(tokens["access_token"].as_str().unwrap())
    }

    async fn change(&self, key: &KeyId, change: KeyChange) -> usize {
        self.oauth.keys().change(key, &change).await.unwrap().len()
    }

    /// The servers that a credential opens; `None` if it is refused.
    async fn opened(&self, credential: &Secret) -> Option<AllowedBackends> {
        let verified = self.oauth.verify(credential.expose(), HOME).await.ok()?;
        Some(verified.caller.rights.backends.clone())
    }
}

#[tokio::test]
async fn oa_156_wider_rights_reach_apps_for_every_server_of_the_key_and_no_others() {
    let authority = Authority::new().await;
    let (key, holder) =
        Authority::key(&authority.oauth, "ann", Rights { backends: only(&["git"]), admin: false }).await;
    let (every, single) = (authority.app(&holder, "mcp:use").await, authority.app(&holder, "mcp:git").await);
    let before = authority.oauth.verify(every.expose(), HOME).await.unwrap();
    assert_eq!(authority.opened(&single).await, Some(only(&["git"])));
    assert_eq!(authority.opened(&key).await, Some(only(&["git"])));
    assert_eq!(authority.change(&holder.key, opening(&["git", "time"])).await, 1);
    assert!(!before.revoked.is_cancelled(), "what runs goes on");
    assert_eq!(authority.opened(&every).await, Some(only(&["git", "time"])), "without a new login");
    assert_eq!(authority.opened(&single).await, Some(only(&["git"])), "it chose one server");
    assert_eq!(authority.opened(&key).await, Some(only(&["git", "time"])));
    assert_eq!(authority.change(&holder.key, opening(&["git", "time"])).await, 0, "the same again");
}

#[tokio::test]
async fn oa_156_narrower_rights_end_what_is_open_and_hold_at_once() {
    let authority = Authority::new().await;
    let (key, holder) = Authority::key(&authority.oauth, "ann", Rights::all_backends()).await;
    let (app, other) = (authority.app(&holder, "mcp:use").await, authority.app(&authority.holder, "mcp:use").await);
    let open = authority.oauth.verify(app.expose(), HOME).await.unwrap();
    let direct = authority.oauth.verify(key.expose(), HOME).await.unwrap();
    let others = authority.oauth.verify(other.expose(), HOME).await.unwrap();
    authority.change(&holder.key, opening(&["git"])).await;
    assert!(open.revoked.is_cancelled() && direct.revoked.is_cancelled());
    assert!(!others.revoked.is_cancelled(), "nobody else's");
    assert_eq!(authority.opened(&app).await, Some(only(&["git"])), "the app stays connected");
    assert_eq!(authority.opened(&key).await, Some(only(&["git"])));
    let read: AllowedBackends = AllowedBackends::Only([("git".to_owned(), Access::ReadOnly)].into());
    let open = authority.oauth.verify(app.expose(), HOME).await.unwrap();
    authority.change(&holder.key, KeyChange { backends: Some(read.clone()), ..KeyChange::default() }).await;
    assert!(open.revoked.is_cancelled(), "reading is less");
    assert_eq!(authority.opened(&app).await, Some(read));
}

#[tokio::test]
async fn oa_156_administration_that_is_taken_ends_tokens_and_reaches_no_app_when_it_comes_back() {
    let authority = Authority::new().await;
    let rights = Rights { admin: true, ..Rights::all_backends() };
    let (_, holder) = Authority::key(&authority.oauth, "ann", rights).await;
    let (app, ordinary) = (authority.app(&holder, "mcp:use mcp:admin").await, authority.app(&holder, "mcp:use").await);
    let admin = |on| KeyChange { admin: Some(on), ..KeyChange::default() };
    authority.change(&holder.key, admin(false)).await;
    assert_eq!(authority.opened(&app).await, None, "its token has ended");
    assert_eq!(authority.opened(&ordinary).await, Some(AllowedBackends::All));
    authority.change(&holder.key, admin(true)).await;
    assert_eq!(authority.opened(&app).await, None);
    let verified = authority.oauth.verify(ordinary.expose(), HOME).await.unwrap();
    assert!(!verified.caller.rights.admin, "administration never reaches an app by itself");
    let git = BackendId::parse("git").unwrap();
    assert_eq!(verified.caller.rights.backends.access(&git), Some(Access::Full), "servers stay as they were");
}

#[tokio::test]
async fn oa_156_a_nearer_end_holds_for_keys_and_apps_and_a_later_one_for_the_key() {
    let authority = Authority::new().await;
    let (key, holder) = Authority::key(&authority.oauth, "ann", Rights::all_backends()).await;
    let app = authority.app(&holder, "mcp:use").await;
    assert!(authority.opened(&app).await.is_some() && authority.opened(&key).await.is_some());
    let end = |end| KeyChange { expires: Some(end), ..KeyChange::default() };
    let soon = authority.clock.now() + Duration::from_mins(10);
    authority.change(&holder.key, end(KeyEnd::At(soon))).await;
    authority.clock.advance(Duration::from_mins(9));
    assert!(authority.opened(&app).await.is_some() && authority.opened(&key).await.is_some());
    authority.change(&holder.key, end(KeyEnd::Never)).await;
    authority.clock.advance(Duration::from_mins(2));
    assert!(authority.opened(&key).await.is_some());
    assert!(authority.opened(&app).await.is_none(), "an app's end never moves away");
}

#[tokio::test]
async fn oa_156_of_two_keys_in_a_rotation_both_change() {
    let authority = Authority::new().await;
    let (old, holder) = Authority::key(&authority.oauth, "ann", Rights::all_backends()).await;
    let rotation = KeyRotation { overlap: Duration::from_hours(24), user: RotatedUser::Same, expires: None };
    let (new, secret) = authority.oauth.keys().rotate(&holder.key, rotation).await.unwrap().unwrap();
    for (named, servers) in [(&holder.key, ["git"]), (&new.id, ["time"])] {
        assert_eq!(authority.change(named, opening(&servers)).await, 2, "{named}");
        for credential in [&old, &secret] {
            assert_eq!(authority.opened(credential).await, Some(only(&servers)));
        }
    }
    let history = authority.oauth.keys().find(&new.id).await.unwrap().unwrap().history;
    assert_eq!(history.changed_by.as_deref(), Some("the operator"));
    assert_eq!(history.changed, Some(authority.clock.now()));
    assert_eq!(authority.change(&KeyId::new("nobody"), opening(&["git"])).await, 0);
}

#[tokio::test]
async fn oa_157_nothing_new_is_made_for_a_user_who_is_deleted_meanwhile() {
    let authority = Authority::new().await;
    let (_, holder) = Authority::key(&authority.oauth, "ann", Rights::all_backends()).await;
    let (client, browser) = (authority.client().await, browser("a"));
    let transaction = authority.begin(&Authority::query(&client, &[])).await;
    authority.oauth.authorization().keep(&transaction, &browser, &holder).await.unwrap();
    let mut gone = authority.oauth.gone_users();
    let ended = authority.oauth.users().delete(&holder.user).await.unwrap().unwrap();
    assert_eq!((ended.keys.len(), ended.apps.len()), (1, 0));
    assert_eq!(gone.try_recv().unwrap(), holder.user, "what is held for the user ends");
    assert!(approve(&authority.oauth, &transaction.id, &browser, &holder).await.is_err());
    assert!(authority.oauth.grants().of(&holder.user).await.unwrap().is_empty());
}
