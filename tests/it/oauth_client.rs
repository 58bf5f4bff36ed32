//! Logins at a protected server: the gateway's own authorization server, over real sockets, and a person who approves.

mod discovery;
mod issuers;
mod moved;
mod services;
mod steps_up;
mod transport;

use std::{path::PathBuf, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::Request as AxumRequest, response::IntoResponse as _, routing::any};
use http::{StatusCode, header};
use lockkeeper::{
    fetch::OpenClient,
    model::{AuthorizationSettings, Bearer, RenewalError},
    oauth::OAuthSettings,
    oauth_client::{Attempt, ClientIdentity, LoginFile, LoginName, LoginTarget, OAuthHttp, OpenBrowser, TokenProvider},
    support::{Clock, ManualClock, OsRandom},
};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet};
use url::Url;

use crate::{
    kit::authority::answers::challenge,
    support::oauth::{Authority, HOME},
};

/// A protected server with its authorization server, and a person with a browser.
struct World {
    authority: Arc<Authority>,
    server: Url,
    folder: TempDir,
    /// The pages that were opened.
    shown: mpsc::UnboundedReceiver<(Url, Attempt)>,
    browser: OpenBrowser,
    listening: JoinSet<std::io::Result<()>>,
}

/// One process of the person: a token, and its provider.
struct Process {
    bearer: Bearer,
    provider: JoinSet<()>,
}

// === impl World ===

impl World {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let settings = OAuthSettings { backends: Authority::settings().backends, ..OAuthSettings::new(&origin) };
        let authority = Arc::new(Authority::on(crate::support::empty_storage().await, settings, 1).await);
        let router = authority.router.clone().merge(protected(&authority, &origin));
        let mut listening = JoinSet::new();
        listening.spawn(axum::serve(listener, router).into_future());
        let (open, shown) = mpsc::unbounded_channel();
        let browser = OpenBrowser::new(move |url, attempt| drop(open.send((url.clone(), attempt))));
        let server = Url::parse(&format!("{origin}/mcp")).unwrap();
        Self { authority, server, folder: tempfile::tempdir().unwrap(), shown, browser, listening }
    }

    fn file(&self) -> LoginFile {
        LoginFile::new(self.folder.path(), &self.server, LoginName::default())
    }

    fn path(&self) -> PathBuf {
        self.file().path().to_owned()
    }

    /// Starts a process, with the token that is saved.
    fn process(&self) -> Process {
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&self.authority.clock);
        let target = login_at(&self.server, self.file());
        Process::start(TokenProvider::new(target, self.browser.clone(), clock, Arc::new(OsRandom)))
    }

    /// Logs in as a person does who sees `url`; returns the text of the last page.
    async fn approve(&self, url: &Url) -> String {
        let redirect = self.authority.approve(url.query().unwrap()).await;
        visit(&redirect.location).await
    }

    /// A process that has logged in.
    async fn logged_in(&mut self) -> Process {
        let process = self.process();
        let (renewed, ()) = tokio::join!(process.renew(), async {
            let (url, attempt) = self.shown.recv().await.unwrap();
            assert_eq!(attempt, Attempt::New);
            assert!(self.approve(&url).await.contains("You are logged in"));
        });
        renewed.unwrap();
        process
    }

    /// The next time at which a rejected token no longer counts as just issued.
    fn later(&self) {
        self.authority.clock.advance(Duration::from_secs(31));
    }
}

/// The login of a client that is registered for it, with nothing said by the person.
fn login_at(server: &Url, file: LoginFile) -> LoginTarget {
    LoginTarget {
        server: server.clone(),
        client_name: "lockkeeper connect on laptop\u{202e}\n".to_owned(),
        http: http(),
        file,
        identity: ClientIdentity::Registered,
        settings: AuthorizationSettings::default(),
        scope: None,
        redirect_uri: None,
        headers: None,
    }
}

/// The server: it answers whoever has a token for it.
fn protected(authority: &Arc<Authority>, origin: &str) -> Router {
    let (authority, metadata) = (Arc::clone(authority), format!("{origin}/.well-known/oauth-protected-resource/mcp"));
    Router::new().route(
        "/mcp",
        any(async move |request: AxumRequest| {
            let token = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
            let token = token.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
            if authority.oauth.verify(token, HOME).await.is_ok() {
                return StatusCode::OK.into_response();
            }
            challenge(&metadata).map(Body::from)
        }),
    )
}

fn http() -> OAuthHttp {
    OAuthHttp::open(OpenClient::direct().unwrap())
}

async fn visit(url: &str) -> String {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client.get(url).send().await.unwrap().text().await.unwrap()
}

// === impl Process ===

impl Process {
    fn start(provider: TokenProvider) -> Self {
        let (bearer, requests) = Bearer::new();
        let mut running = JoinSet::new();
        running.spawn(provider.run(requests));
        Self { bearer, provider: running }
    }

    /// Asks for another token than the current one.
    fn renew(&self) -> impl Future<Output = Result<(), RenewalError>> + use<> {
        let bearer = self.bearer.clone();
        async move { bearer.renew(bearer.current(), Vec::new()).await }
    }

    fn token(&self) -> String {
        self.bearer.current().unwrap().expose().to_owned()
    }
}

/// Renews the tokens of all processes at once.
fn renew_all(processes: &[Process]) -> JoinSet<Result<(), RenewalError>> {
    let mut renewed = JoinSet::new();
    for process in processes {
        renewed.spawn(process.renew());
    }
    renewed
}

#[tokio::test]
async fn a_login_is_kept_for_later_processes_of_the_person_alone() {
    let mut world = World::new().await;
    let first = world.logged_in().await;
    assert!(world.authority.oauth.verify(&first.token(), HOME).await.is_ok());
    let later = world.process();
    later.bearer.renew(None, Vec::new()).await.unwrap();
    assert_eq!(later.token(), first.token());
    assert!(world.shown.is_empty(), "nobody is asked twice");
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(world.path()).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test]
async fn ten_processes_at_once_open_one_page() {
    let mut world = World::new().await;
    let processes: Vec<Process> = (0..10).map(|_| world.process()).collect();
    let renewed = renew_all(&processes);
    let (url, _) = world.shown.recv().await.unwrap();
    world.approve(&url).await;
    assert!(renewed.join_all().await.iter().all(Result::is_ok));
    assert!(processes.iter().all(|process| process.token() == processes[0].token()));
    assert!(world.shown.is_empty());
}

#[tokio::test]
async fn a_login_goes_on_when_the_process_that_began_it_is_killed() {
    let mut world = World::new().await;
    let killed = world.process();
    let mut renewed = JoinSet::new();
    renewed.spawn(killed.renew());
    let (page, _) = world.shown.recv().await.unwrap();
    drop(killed.provider);
    assert!(renewed.join_next().await.unwrap().unwrap().is_err());
    let next = world.process();
    renewed.spawn(next.renew());
    assert_eq!(world.shown.recv().await.unwrap(), (page.clone(), Attempt::Resumed));
    assert!(world.approve(&page).await.contains("You are logged in"));
    renewed.join_next().await.unwrap().unwrap().unwrap();
    assert!(world.authority.oauth.verify(&next.token(), HOME).await.is_ok());
}

#[tokio::test]
async fn processes_whose_token_has_ended_spend_the_refresh_token_once() {
    let mut world = World::new().await;
    let old = world.logged_in().await.token();
    let processes: Vec<Process> = (0..10).map(|_| world.process()).collect();
    for process in &processes {
        process.bearer.renew(None, Vec::new()).await.unwrap();
    }
    world.authority.clock.advance(Duration::from_secs(3601));
    assert!(renew_all(&processes).join_all().await.iter().all(Result::is_ok));
    assert!(processes.iter().all(|process| process.token() == processes[0].token() && process.token() != old));
    assert!(world.authority.oauth.verify(&processes[0].token(), HOME).await.is_ok());
    assert!(world.shown.is_empty(), "nobody is asked");
}

#[tokio::test]
async fn a_login_that_was_revoked_begins_again() {
    let mut world = World::new().await;
    let process = world.logged_in().await;
    let login: serde_json::Value = serde_json::from_slice(&std::fs::read(world.path()).unwrap()).unwrap();
    let (client, refresh) = (login["client"]["id"].as_str().unwrap(), login["tokens"]["refresh"].as_str().unwrap());
    let form = [("client_id", client), ("token", refresh), ("token_type_hint", "refresh_token")];
    assert_eq!(world.authority.form("/oauth/revoke", &form).await.status, StatusCode::OK);
    world.later();
    let renewed = process.renew();
    let mut waiting = JoinSet::new();
    waiting.spawn(renewed);
    let (url, attempt) = world.shown.recv().await.unwrap();
    assert_eq!(attempt, Attempt::New);
    world.approve(&url).await;
    waiting.join_next().await.unwrap().unwrap().unwrap();
    let again: serde_json::Value = serde_json::from_slice(&std::fs::read(world.path()).unwrap()).unwrap();
    assert_eq!(again["client"]["id"], client, "the registration is kept");
}

#[tokio::test]
async fn a_client_whose_page_nobody_answered_is_registered_anew() {
    // the authorization server may have told the person alone that it does not know the client
    let mut world = World::new().await;
    let killed = world.process();
    let mut waiting = JoinSet::new();
    waiting.spawn(killed.renew());
    let (page, _) = world.shown.recv().await.unwrap();
    drop((killed.provider, waiting));
    let saved = std::fs::read_to_string(world.path()).unwrap();
    let id = page.query_pairs().find(|(name, _)| name == "client_id").unwrap().1.into_owned();
    std::fs::write(world.path(), saved.replace(&id, "forgotten")).unwrap();
    world.authority.clock.advance(Duration::from_mins(10));
    let next = world.logged_in().await;
    assert!(world.authority.oauth.verify(&next.token(), HOME).await.is_ok());
}

#[tokio::test]
async fn an_authorization_server_that_cannot_be_reached_ends_no_login() {
    let mut world = World::new().await;
    let process = world.logged_in().await;
    let before = std::fs::read(world.path()).unwrap();
    world.later();
    world.listening.shutdown().await;
    let reason = process.renew().await.unwrap_err();
    assert!(reason.to_string().contains("cannot be reached"), "{reason}");
    assert_eq!(std::fs::read(world.path()).unwrap(), before);
}

#[tokio::test]
async fn a_token_that_is_rejected_as_soon_as_it_is_issued_leads_to_no_second_login() {
    let mut world = World::new().await;
    let process = world.logged_in().await;
    let token = process.token();
    process.renew().await.unwrap();
    assert_eq!(process.token(), token, "the same once more: the server may not know of it yet");
    let reason = process.renew().await.unwrap_err();
    assert!(reason.to_string().contains("has just issued"), "{reason}");
    assert!(world.shown.is_empty());
}

#[tokio::test]
async fn a_person_who_refuses_is_told_so_on_both_sides() {
    let mut world = World::new().await;
    let process = world.process();
    let mut renewed = JoinSet::new();
    renewed.spawn(process.renew());
    let (url, _) = world.shown.recv().await.unwrap();
    let parameter = |name: &str| url.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
    let issuer = world.server.origin().ascii_serialization();
    let mut callback = Url::parse(&parameter("redirect_uri")).unwrap();
    callback.query_pairs_mut().append_pair("error", "access_denied").append_pair("state", &parameter("state"));
    callback.query_pairs_mut().append_pair("iss", &issuer);
    let mut foreign = Url::parse(&parameter("redirect_uri")).unwrap();
    foreign.query_pairs_mut().append_pair("code", "stolen").append_pair("state", "another");
    assert!(visit(foreign.as_str()).await.contains("another login"), "a foreign response changes nothing");
    assert!(visit(callback.as_str()).await.contains("You are not logged in"));
    let reason = renewed.join_next().await.unwrap().unwrap().unwrap_err();
    assert!(reason.to_string().contains("access_denied"), "{reason}");
}
