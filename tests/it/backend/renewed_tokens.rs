//! Requests with the token of a login, with a scripted server that rejects tokens.

use std::sync::Arc;

use lockkeeper::{
    model::{BackendSpec, Bearer, RenewalError, TokenRequests, TransportSpec},
    support::Secret,
};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::scripted_servers::{failure, gateway, started, text, tool};
use crate::kit::peer::{Peer, Seen, named, status};

/// A server whose token is `good`; it tells with 403 that `small` has too few scopes.
async fn peer() -> Peer {
    Peer::start(|seen: &Seen| match seen.header("authorization") {
        Some("Bearer good") => None,
        Some("Bearer small") => {
            let mut refusal = status(403);
            let challenge = "Bearer error=\"insufficient_scope\", scope=\"more\"".parse().unwrap();
            refusal.headers_mut().insert("www-authenticate", challenge);
            Some(refusal)
        }
        _ => Some(status(401)),
    })
    .await
}

fn spec(peer: &Peer) -> (BackendSpec, TokenRequests) {
    let (bearer, requests) = Bearer::new();
    let mut spec = peer.spec();
    let TransportSpec::Http(http) = &mut spec.transport else { panic!("an HTTP server") };
    http.bearer = Some(bearer);
    (spec, requests)
}

/// Answers the requests for tokens with these, one after the other, and then with a refusal. Keeps their challenges.
struct Provider {
    challenges: Arc<Mutex<Vec<String>>>,
    _task: JoinSet<()>,
}

fn provide(mut requests: TokenRequests, tokens: &'static [&'static str]) -> Provider {
    let challenges = Arc::<Mutex<Vec<String>>>::default();
    let kept = Arc::clone(&challenges);
    let mut task = JoinSet::new();
    task.spawn(async move {
        let mut tokens = tokens.iter();
        while let Some(request) = requests.recv().await {
            kept.lock().extend(request.challenges.clone());
            let outcome = match tokens.next() {
                Some(token) => {
                    requests.set(Secret::new(*token));
                    Ok(())
                }
                None => Err(RenewalError::Failed("nobody logged in".to_owned())),
            };
            request.answer(outcome);
        }
    });
    Provider { challenges, _task: task }
}

#[tokio::test]
async fn a_request_whose_token_is_rejected_is_sent_again_with_another() {
    let peer = peer().await;
    let (spec, requests) = spec(&peer);
    requests.set(Secret::new("old"));
    let _provider = provide(requests, &["good"]);
    let (_supervisor, server) = started(spec).await;
    assert_eq!(text(tool(&server, gateway(), &named("x"))).await, "s1");
    for seen in peer.seen() {
        assert_eq!(seen.headers.get_all("authorization").iter().count(), 1, "one token and no configured one");
    }
}

#[tokio::test]
async fn too_few_scopes_lead_to_a_token_with_more() {
    let peer = peer().await;
    let (spec, requests) = spec(&peer);
    requests.set(Secret::new("small"));
    let provider = provide(requests, &["good"]);
    let (_supervisor, server) = started(spec).await;
    assert_eq!(text(tool(&server, gateway(), &named("x"))).await, "s1");
    let challenges = provider.challenges.lock().clone();
    assert!(challenges.len() == 1 && challenges[0].contains("scope=\"more\""), "{challenges:?}");
}

#[tokio::test]
async fn a_login_that_fails_is_the_reason_of_the_backend() {
    let peer = peer().await;
    let (spec, requests) = spec(&peer);
    let _provider = provide(requests, &[]);
    let (supervisor, server) = started(spec).await;
    let error = failure(tool(&server, gateway(), &named("x"))).await;
    assert!(error.message().contains("it does not start"), "{error:?}");
    let state = supervisor.status().remove(0).state;
    assert!(state.reason().is_some_and(|reason| reason.contains("nobody logged in")), "{state:?}");
}
