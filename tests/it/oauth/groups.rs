//! Groups of backends as protected resources: `work` is the backend `git`, and `time` is in no group.

use lockkeeper::{
    model::{Access, AllowedBackends, BackendId, GroupSpec, Groups, Rights},
    oauth::{BeginOutcome, Redirect, StoreOutcome},
};

use super::gate::knock;
use crate::support::oauth::{Authority, FROM, ISSUER, approve, browser, parameter};

fn id(name: &str) -> BackendId {
    BackendId::parse(name).unwrap()
}

fn work() -> Groups {
    std::iter::once(GroupSpec { id: id("work"), servers: vec![id("git")], tools: None }).collect()
}

async fn authority() -> Authority {
    let authority = Authority::new().await;
    authority.oauth.replace_backends(vec![id("git"), id("time")], work());
    authority
}

/// An authority whose user has a key with these rights alone.
async fn limited(allowed: &[&str]) -> Authority {
    let mut authority = authority().await;
    let allowed = allowed.iter().map(|name| ((*name).to_owned(), Access::Full)).collect();
    let rights = Rights { backends: AllowedBackends::Only(allowed), admin: false };
    (authority.key, authority.holder) = Authority::key(&authority.oauth, "bob", rights).await;
    authority
}

/// The statuses of requests to the paths.
async fn statuses<const N: usize>(authority: &Authority, bearer: &str, paths: [&str; N]) -> [u16; N] {
    let mut statuses = [0; N];
    for (status, path) in statuses.iter_mut().zip(paths) {
        *status = knock(authority, path, Some(&format!("Bearer {bearer}"))).await.status.as_u16();
    }
    statuses
}

#[tokio::test]
async fn a_group_has_metadata_and_a_challenge_of_its_own() {
    let authority = authority().await;
    for path in ["/mcp/work", "/sse/work", "/ws/work"] {
        let answer = authority.get(&format!("/.well-known/oauth-protected-resource{path}")).await.json();
        assert_eq!(answer["resource"], format!("{ISSUER}{path}"));
        assert_eq!(answer["scopes_supported"], serde_json::json!(["mcp:work"]));
    }
    let answer = knock(&authority, "/mcp/work", None).await;
    let challenge = answer.header("www-authenticate").unwrap();
    assert!(challenge.contains("/oauth-protected-resource/mcp/work") && challenge.contains("mcp:work"), "{challenge}");
}

#[tokio::test]
async fn a_token_of_a_group_opens_its_endpoints_alone_and_no_other_token_does() {
    let authority = authority().await;
    for own in ["/mcp/work", "/mcp", "/mcp/git", "/sse/work"] {
        let token = authority.access_token(own).await;
        let paths = ["/mcp/work", "/mcp", "/mcp/git", "/sse/work"];
        // and the stream of the same servers
        let expected = paths.map(|path| if path == own || path == own.replace("/mcp", "/sse") { 200 } else { 401 });
        assert_eq!(statuses(&authority, &token, paths).await, expected, "{own}");
    }
}

#[tokio::test]
async fn a_key_for_a_group_opens_the_group_and_nothing_else() {
    let authority = limited(&["work"]).await;
    let paths = ["/mcp/work", "/sse/work", "/mcp", "/sse", "/mcp/git", "/sse/git", "/mcp/time"];
    let opened = statuses(&authority, authority.key.expose(), paths).await;
    assert_eq!(opened, [200, 200, 403, 403, 403, 403, 403]);
    let token = authority.access_token("/mcp/work").await;
    assert_eq!(statuses(&authority, &token, ["/mcp/work", "/mcp"]).await, [200, 401]);
    for path in ["/mcp", "/mcp/git"] {
        let client = authority.client().await;
        let query = Authority::query(&client, &[("resource", &format!("{ISSUER}{path}"))]);
        let BeginOutcome::Valid(transaction) = authority.oauth.authorization().begin(&query, FROM).await else {
            panic!("{path}")
        };
        let authorization = authority.oauth.authorization();
        let kept = authorization.keep(&transaction, &browser("a"), &authority.holder).await.unwrap();
        assert!(matches!(kept, StoreOutcome::Waiting), "{kept:?}");
        let decided = approve(&authority.oauth, &transaction.id, &browser("a"), &authority.holder).await;
        let Redirect { location, .. } = decided.unwrap();
        assert_eq!(parameter(&location, "error").as_deref(), Some("access_denied"), "{path}: {location}");
    }
}

#[tokio::test]
async fn a_right_to_a_server_of_a_group_opens_the_group_with_that_server() {
    let authority = limited(&["git", "time"]).await;
    let opened = statuses(&authority, authority.key.expose(), ["/mcp/work", "/mcp", "/mcp/git"]).await;
    assert_eq!(opened, [200, 200, 200]);
    let token = authority.access_token("/mcp/work").await;
    let verified = authority.oauth.verify(&token, crate::support::oauth::HOME).await.unwrap();
    let rights = &verified.caller.rights.backends;
    assert_eq!([rights.access(&id("git")), rights.access(&id("time"))], [Some(Access::Full), None]);
    // the next request sees another group, and none that is gone
    let both = GroupSpec { id: id("work"), servers: vec![id("git"), id("time")], tools: None };
    authority.oauth.replace_backends(vec![id("git"), id("time")], std::iter::once(both).collect());
    let verified = authority.oauth.verify(&token, crate::support::oauth::HOME).await.unwrap();
    assert_eq!(verified.caller.rights.backends.access(&id("time")), Some(Access::Full));
    authority.oauth.replace_backends(vec![id("git"), id("time")], Groups::default());
    assert_eq!(statuses(&authority, &token, ["/mcp/work"]).await, [403]);

    let other = limited(&["time"]).await;
    assert_eq!(statuses(&other, other.key.expose(), ["/mcp/work", "/mcp/time"]).await, [403, 200]);
}

#[tokio::test]
async fn scopes_and_endpoints_of_groups_belong_together() {
    let authority = authority().await;
    let granted = async |changes: &[(&str, &str)]| {
        let client = authority.client().await;
        let id = authority.waiting(&Authority::query(&client, changes)).await;
        let pending = authority.pending(&id, &browser("a")).await.unwrap();
        format!("{} {}", pending.endpoint, pending.scopes)
    };
    let at_work = ("resource", "https://gw.example/mcp/work");
    assert_eq!(granted(&[("resource", ""), ("scope", "mcp:work")]).await, "/mcp/work mcp:work");
    assert_eq!(granted(&[at_work, ("scope", "mcp:work:read")]).await, "/mcp/work mcp:work:read");
    assert_eq!(granted(&[at_work, ("scope", "mcp:git mcp:time")]).await, "/mcp/work mcp:work");
    assert_eq!(granted(&[("scope", "mcp:work mcp:git")]).await, "/mcp mcp:git");
    assert_eq!(granted(&[("scope", "mcp:work")]).await, "/mcp mcp:use");
}
