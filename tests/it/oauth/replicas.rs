//! Two gateways on one PostgreSQL database: what is revoked at one is refused at the other, also after the other was cut off
//! from the database. `scripts/test-postgres` runs these tests.

use std::time::Duration;

use http::StatusCode;
use lockkeeper::{
    model::{Access, AllowedBackends, AuthPolicy, KeyChange, RateLimitScope},
    oauth::{KeyRefusal, MasterKeySource},
    storage::Storage,
    support::Live,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::gate;
use crate::{
    storage::postgres::schema,
    support::{
        link::Link,
        oauth::{Authority, HOME},
    },
};

const ACCEPTED: (StatusCode, bool) = (StatusCode::OK, false);
/// Time in which every gateway learns of a revocation.
const KNOWN_WITHIN: Duration = Duration::from_secs(1);

/// The gateways, and the link of the second one to the database.
struct Pair {
    first: Authority,
    second: Authority,
    link: Link,
    _folder: tempfile::TempDir,
}

impl Pair {
    async fn on(name: &str) -> Self {
        Self::with(name, RateLimitScope::Shared).await
    }

    async fn with(name: &str, rate_limits: RateLimitScope) -> Self {
        let (url, _) = schema(name).await;
        let (link, linked) = Link::to(&url).await;
        let folder = tempfile::tempdir().unwrap();
        let settings = || {
            let mut settings = Authority::settings();
            settings.master_key = MasterKeySource::File(folder.path().join("master.key"));
            settings.policy = Live::new(AuthPolicy { rate_limits, ..AuthPolicy::default() });
            settings
        };
        let first = Authority::on(Storage::connect(&url).await.unwrap(), settings(), 1).await;
        let second = Authority::on(Storage::connect(&linked).await.unwrap(), settings(), 2).await;
        Self { first, second, link, _folder: folder }
    }

    /// The answer of the second gateway to a request with this credential, and whether it names a time for a retry.
    async fn answer_of_second(&self, credential: &str) -> (StatusCode, bool) {
        let answer = gate::knock(&self.second, "/mcp", Some(&format!("Bearer {credential}"))).await;
        (answer.status, answer.header("retry-after").is_some())
    }

    /// Waits for the refusal of a credential that the second gateway accepted.
    async fn refused_by_second(&self, credential: &str) {
        let refused = async {
            while self.answer_of_second(credential).await != (StatusCode::UNAUTHORIZED, false) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(KNOWN_WITHIN, refused).await.expect("refused in time");
    }
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: scripts/test-postgres"]
async fn what_is_revoked_at_one_gateway_is_refused_at_the_other_within_a_second() {
    let pair = Pair::on("revoked_elsewhere").await;
    let (oauth, ended) = (pair.second.oauth.clone(), CancellationToken::new());
    let mut watch = JoinSet::new();
    watch.spawn({
        let ended = ended.clone();
        async move { oauth.watch_revocations(ended).await }
    });
    let first = &pair.first.oauth;
    let (token, key) = (pair.first.access_token("/mcp").await, pair.first.key.expose());
    let granted = first.grants().list().await.unwrap().remove(0).grant;
    let kept = pair.first.access_token("/mcp").await;
    for credential in [&token, &kept, key] {
        assert_eq!(pair.answer_of_second(credential).await, ACCEPTED);
    }

    assert!(first.grants().revoke(&granted.user, &granted.id).await.unwrap());
    pair.refused_by_second(&token).await;
    assert_eq!(pair.answer_of_second(&kept).await, ACCEPTED, "another grant goes on");
    let kid = first.signing_keys().list().await.unwrap().remove(0).kid;
    assert!(first.signing_keys().withdraw(&kid).await.unwrap());
    pair.refused_by_second(&kept).await;
    assert_eq!(pair.answer_of_second(key).await, ACCEPTED);
    assert!(first.keys().revoke(&pair.first.holder.key).await.unwrap());
    pair.refused_by_second(key).await;
    ended.cancel();
    watch.join_next().await.unwrap().unwrap();
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: scripts/test-postgres"]
async fn oa_156_rights_that_change_at_one_gateway_hold_at_the_other_within_a_second() {
    let pair = Pair::on("changed_elsewhere").await;
    let (oauth, ended) = (pair.second.oauth.clone(), CancellationToken::new());
    let mut watch = JoinSet::new();
    watch.spawn({
        let ended = ended.clone();
        async move { oauth.watch_revocations(ended).await }
    });
    let first = &pair.first.oauth;
    let (token, key) = (pair.first.access_token("/mcp").await, pair.first.key.expose().to_owned());
    let opened = async |credential: &str| {
        let verified = pair.second.oauth.verify(credential, HOME).await.unwrap();
        (verified.caller.rights.backends.clone(), verified)
    };
    for names in [&["git"][..], &["git", "time"], &["time"]] {
        let wanted = AllowedBackends::Only(names.iter().map(|name| ((*name).to_owned(), Access::Full)).collect());
        let open = [opened(&token).await, opened(&key).await];
        let is_narrower = names.len() == 1;
        let change = KeyChange { backends: Some(wanted.clone()), ..KeyChange::default() };
        assert_eq!(first.keys().change(&pair.first.holder.key, &change).await.unwrap().len(), 1);
        let held = async {
            while opened(&token).await.0 != wanted || opened(&key).await.0 != wanted {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(KNOWN_WITHIN, held).await.expect("known in time");
        for (_, verified) in open {
            assert_eq!(verified.revoked.is_cancelled(), is_narrower, "{names:?}");
        }
    }
    ended.cancel();
    watch.join_next().await.unwrap().unwrap();
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: scripts/test-postgres"]
async fn notices_come_without_a_poll() {
    let (url, _) = schema("noticed").await;
    let (first, second) = (Storage::connect(&url).await.unwrap(), Storage::connect(&url).await.unwrap());
    let authority = Authority::on(first, Authority::settings(), 1).await;
    let mut notices = second.revocation_notices();
    notices.next().await.unwrap();
    let both = async { tokio::join!(authority.oauth.keys().revoke(&authority.holder.key), notices.next()) };
    let (revoked, next) = tokio::time::timeout(Duration::from_secs(10), both).await.expect("a notice");
    assert!(revoked.unwrap());
    next.unwrap();
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: scripts/test-postgres"]
async fn a_gateway_that_was_cut_off_never_accepts_what_was_revoked_meanwhile() {
    let pair = Pair::on("cut_off").await;
    let (revoked, valid) = (pair.first.key.clone(), pair.second.key.clone());
    for key in [&revoked, &valid] {
        assert_eq!(pair.answer_of_second(key.expose()).await, ACCEPTED);
    }

    pair.link.cut();
    assert!(pair.first.oauth.keys().revoke(&pair.first.holder.key).await.unwrap());
    pair.second.clock.advance(KNOWN_WITHIN * 2);
    for key in [&revoked, &valid] {
        assert_eq!(
            pair.answer_of_second(key.expose()).await,
            (StatusCode::SERVICE_UNAVAILABLE, true),
            "never a stale yes"
        );
    }

    assert!(!pair.second.oauth.database_answers().await, "nor is it ready");

    pair.link.restore();
    assert!(pair.second.oauth.database_answers().await);
    assert_eq!(pair.answer_of_second(valid.expose()).await, ACCEPTED);
    // unknown here, it is looked up, by connections of which some are dead
    let refused = async {
        while pair.answer_of_second(revoked.expose()).await == (StatusCode::SERVICE_UNAVAILABLE, true) {}
        pair.answer_of_second(revoked.expose()).await
    };
    assert_eq!(refused.await, (StatusCode::UNAUTHORIZED, false));
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: scripts/test-postgres"]
async fn all_gateways_count_wrong_keys_together_or_each_alone() {
    for (name, scope) in [("counted_together", RateLimitScope::Shared), ("counted_alone", RateLimitScope::Replica)] {
        let pair = Pair::with(name, scope).await;
        for _ in 0..10 {
            let refusal = pair.first.oauth.keys().authenticate("wrong", HOME).await.unwrap_err();
            assert!(matches!(refusal, KeyRefusal::Unknown), "{refusal}");
        }
        for gateway in [&pair.first, &pair.second] {
            gateway.oauth.sync().await.unwrap();
        }
        let refusal = pair.second.oauth.keys().authenticate("wrong", HOME).await.unwrap_err();
        assert_eq!(matches!(refusal, KeyRefusal::Limited { .. }), scope == RateLimitScope::Shared, "{refusal}");
        let right = pair.second.key.expose();
        assert!(pair.second.oauth.keys().authenticate(right, HOME).await.is_ok(), "a right key passes");
    }
}
