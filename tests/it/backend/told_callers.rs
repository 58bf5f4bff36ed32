//! Servers that are told who calls: by a header, by a signed statement, in their environment.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lockkeeper::{
    backend::BackendDeps,
    mcp::{Context, Server},
    model::{
        BackendSpec, Caller, CallerIdentity, CallerText, ClientId, Disclosure, EraChoice, IdentityForm, IdentityHeader,
        IdentitySigner, Share, SignedIdentity, TextPart, TransportSpec,
    },
    support::{Clock, ManualClock, Secret},
};
use serde_json::{Value, json};

use super::scripted_servers::{SOON, Scripts, everyday, failure, person, start, start_with, started, text, tool};
use crate::kit::peer::{Peer, Seen, named, reply};
use crate::kit::{carriers::Program, scripted::Script};

fn told(spec: BackendSpec, name: &str, form: IdentityForm) -> BackendSpec {
    let identity = Some(IdentityHeader { name: name.to_owned(), form });
    BackendSpec { disclosure: Some(Disclosure { identity, ..Disclosure::default() }), ..spec }
}

fn user_text(before: &str) -> CallerText {
    CallerText::new(vec![TextPart::Fixed(Secret::new(before)), TextPart::User])
}

/// The header of the requests of this session of the server.
fn of_session<'a>(seen: &'a [Seen], session: &str, header: &str) -> Vec<&'a str> {
    let theirs = seen.iter().filter(|seen| seen.header("mcp-session-id") == Some(session));
    theirs.map(|seen| seen.header(header).unwrap_or("none")).collect()
}

#[tokio::test]
async fn every_request_says_who_calls_and_no_session_has_two_callers_though_all_share_the_server() {
    let peer = Peer::start(|_| None).await;
    let spec = BackendSpec { share: Share::All, ..told(peer.spec(), "x-forwarded-user", IdentityForm::Plain) };
    let (supervisor, server) = started(spec).await;
    let call = async |user: &str, session: &str| text(tool(&server, person(user, session, "{}"), &named("x"))).await;
    let (ann, bob) = (call("ann", "1").await, call("bob", "2").await);
    assert_ne!(ann, bob);
    assert_eq!(call("ann", "3").await, ann, "the sessions of one user share the server's");
    supervisor.shutdown().await;
    let seen = peer.seen();
    for (session, user) in [(ann.as_str(), "ann"), (bob.as_str(), "bob")] {
        let said = of_session(&seen, session, "x-forwarded-user");
        assert!(said.len() >= 4 && said.iter().all(|said| *said == user), "{session}: {said:?}");
    }
    let handshakes: Vec<_> =
        peer.seen_of("initialize").iter().map(|seen| seen.header("x-forwarded-user").map(str::to_owned)).collect();
    assert_eq!(handshakes, ["(gateway)", "ann", "bob"].map(|user| Some(user.to_owned())));
}

#[tokio::test]
async fn a_user_in_a_header_is_no_other_user_and_no_other_header() {
    let peer = Peer::start(|_| None).await;
    let mut spec = told(peer.spec(), "x-user", IdentityForm::Plain);
    spec.disclosure.as_mut().unwrap().headers = BTreeMap::from([("X-Tenant".to_owned(), user_text("of "))]);
    let (_supervisor, server) = started(spec).await;
    text(tool(&server, person("a\r\nx-admin: 1%", "1", "{}"), &named("x"))).await;
    let call = peer.saw("tools/call").await;
    assert_eq!(call.header("x-user"), Some("a%0D%0Ax-admin:%201%25"));
    assert_eq!(call.header("x-tenant"), Some("of a%0D%0Ax-admin%3A%201%25"));
    assert_eq!(call.header("x-admin"), None);
}

#[tokio::test]
async fn a_server_without_sessions_is_told_on_a_connection_of_each_user() {
    let peer = Peer::start(|seen| {
        let result = match seen.method() {
            "server/discover" => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
                "serverInfo": { "name": "scripted", "version": "7" }, "ttlMs": 0, "cacheScope": "private",
            }),
            "tools/call" => {
                json!({ "resultType": "complete", "content": [{ "type": "text", "text": seen.header("x-user") }] })
            }
            _ => return None,
        };
        Some(reply(&seen.result(&result)))
    })
    .await;
    let spec = BackendSpec { era: EraChoice::Modern, share: Share::All, ..peer.spec() };
    let (_supervisor, server) = started(told(spec, "x-user", IdentityForm::Plain)).await;
    for user in ["ann", "bob", "ann"] {
        assert_eq!(text(tool(&server, person(user, user, "{}"), &named("x"))).await, user);
    }
}

/// A signer that counts, whose tokens are renewed after four minutes.
fn signer(clock: &Arc<ManualClock>, signed: &Arc<AtomicUsize>) -> IdentitySigner {
    let (clock, signed) = (Arc::clone(clock), Arc::clone(signed));
    Arc::new(move |caller: &CallerIdentity, audience: &str| {
        let number = signed.fetch_add(1, Ordering::SeqCst);
        let client = caller.client.as_ref().map_or("none", |client| client.as_str());
        let token = Secret::new(format!("{}.{client}.{audience}.{number}", caller.user));
        Some(SignedIdentity { token, renewed_at: clock.now() + Duration::from_mins(4) })
    })
}

fn through(client: &str, context: Context) -> Context {
    let caller = Caller { client: Some(ClientId::new(client)), ..Caller::clone(&context.caller) };
    Context { caller: Arc::new(caller), ..context }
}

#[tokio::test]
async fn a_signed_statement_is_signed_once_and_renewed_before_its_end() {
    let peer = Peer::start(|_| None).await;
    let (clock, count) = (Arc::new(ManualClock::default()), Arc::new(AtomicUsize::new(0)));
    let mut spec = peer.spec();
    let TransportSpec::Http(http) = &mut spec.transport else { panic!("HTTP") };
    http.headers.clear();
    let spec = told(spec, "authorization", IdentityForm::Signed { audience: "docs".to_owned() });
    let (signer, given): (_, Arc<dyn Clock>) = (signer(&clock, &count), Arc::<ManualClock>::clone(&clock));
    let supervisor = start_with(vec![BackendSpec { share: Share::User, ..spec }], |deps| BackendDeps {
        signer: Some(signer),
        clock: given,
        ..deps
    });
    assert!(supervisor.ready(SOON).await);
    let server: Arc<dyn Server> = supervisor.servers().remove(0).server;
    let call = async |client: &str| {
        text(tool(&server, through(client, person("ann", "1", "{}")), &named("x"))).await;
        peer.seen_of("tools/call").last().unwrap().header("authorization").unwrap().to_owned()
    };
    let first = call("editor").await;
    assert!(first.starts_with("Bearer ann.editor.docs."), "{first}");
    let (before, again) = (count.load(Ordering::SeqCst), call("editor").await);
    assert_eq!((&again, count.load(Ordering::SeqCst)), (&first, before), "a call signs nothing");
    assert!(call("shell").await.starts_with("Bearer ann.shell.docs."), "two clients are not taken for one");
    clock.advance(Duration::from_mins(4));
    assert_ne!(call("editor").await, first);
}

#[tokio::test]
async fn without_signing_keys_a_server_that_is_told_by_a_token_does_not_start() {
    let peer = Peer::start(|_| None).await;
    let spec = told(peer.spec(), "x-who", IdentityForm::Signed { audience: "docs".to_owned() });
    let supervisor = start(vec![spec]);
    assert!(supervisor.ready(SOON).await);
    let server: Arc<dyn Server> = supervisor.servers().remove(0).server;
    let error = failure(tool(&server, person("ann", "1", "{}"), &named("x"))).await.to_string();
    assert!(error.contains("it does not start"), "{error}");
    let state = supervisor.status().remove(0).state;
    assert!(state.reason().is_some_and(|reason| reason.contains("lockkeeper serve")), "{state:?}");
    assert_eq!(peer.seen().len(), 0);
}

#[tokio::test]
async fn a_program_has_the_caller_in_its_environment_and_arguments() {
    let scripts = Scripts::new();
    let program = Program { arguments: vec!["user=x".to_owned()], ..Program::default() };
    let mut spec = scripts.serve("told", everyday(Script::everyday()).run_as(program));
    spec.spares = 2;
    let TransportSpec::Stdio(stdio) = &spec.transport else { panic!() };
    let last = stdio.args.len() - 1;
    let disclosure = Disclosure {
        args: BTreeMap::from([(last, user_text("user="))]),
        env: BTreeMap::from([("CALLER".to_owned(), user_text("")), ("HELLO".to_owned(), user_text("Hello "))]),
        ..Disclosure::default()
    };
    let (_supervisor, server) = started(BackendSpec { disclosure: Some(disclosure), ..spec }).await;
    for (user, written) in [("ann", "ann"), ("key:7", "key%3A7"), ("ann", "ann")] {
        let about = text(tool(&server, person(user, user, "{}"), &named("about"))).await;
        let about: Value = serde_json::from_str(&about).unwrap();
        let told = json!([about["arguments"][0], about["environment"]["CALLER"], about["environment"]["HELLO"]]);
        assert_eq!(told, json!([format!("user={written}"), written, format!("Hello {written}")]), "{user}");
    }
}
