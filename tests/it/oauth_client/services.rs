//! Logins of a person at the well-known services: tokens, refreshes, faults and ends in their words.

use std::{sync::Arc, time::Duration};

use lockkeeper::{
    model::{AuthorizationSettings, PkceSupport},
    oauth_client::{
        BearerChallenge, ClientIdentity, LoginFile, LoginName, LoginTarget, OpenBrowser, ResourceServer, TokenProvider,
        discover,
    },
    support::{ManualClock, OsRandom, Secret},
};
use tempfile::TempDir;
use tokio::sync::mpsc;
use url::Url;

use super::{Process, http, login_at, visit};
use crate::kit::{
    authority::Endpoint,
    protected::ProtectedServer,
    services::{GIVEN, SERVICES, Service},
};

/// A person at a server whose authorization server is a service.
struct Visitor {
    server: ProtectedServer,
    clock: Arc<ManualClock>,
    process: Process,
    shown: mpsc::UnboundedReceiver<Url>,
    _folder: TempDir,
}

impl Visitor {
    async fn of(service: &Service) -> Self {
        let (server, folder) = (ProtectedServer::start().await, tempfile::tempdir().unwrap());
        service.play(&server.authority);
        let url = Url::parse(&server.url).unwrap();
        let settings = AuthorizationSettings {
            issuer: (!service.registers).then(|| server.authority.issuer().to_owned()),
            pkce: if service.hides_pkce() { PkceSupport::Assumed } else { PkceSupport::Announced },
            ..AuthorizationSettings::default()
        };
        let identity = if service.registers {
            ClientIdentity::Registered
        } else {
            ClientIdentity::given(GIVEN.0, Some(Secret::new(GIVEN.1)), &settings).unwrap()
        };
        let (open, shown) = mpsc::unbounded_channel();
        let browser = OpenBrowser::new(move |url, _| drop(open.send(url.clone())));
        let file = LoginFile::new(folder.path(), &url, LoginName::default());
        let target = LoginTarget { identity, settings, ..login_at(&url, file) };
        let clock = Arc::new(ManualClock::default());
        let given = Arc::<ManualClock>::clone(&clock);
        let process = Process::start(TokenProvider::new(target, browser, given, Arc::new(OsRandom)));
        Self { server, clock, process, shown, _folder: folder }
    }

    /// Logs in on the page that is opened.
    async fn log_in(&mut self) {
        let (renewed, page) =
            tokio::join!(self.process.renew(), async { visit(self.shown.recv().await.unwrap().as_str()).await });
        assert!(page.contains("You are logged in"), "{page}");
        renewed.unwrap();
    }

    /// The time at which the longest token has ended.
    fn later(&self) {
        self.clock.advance(Duration::from_hours(24 * 91));
    }
}

#[tokio::test]
async fn up_021_up_022_a_person_stays_logged_in_at_every_service_until_the_grant_is_over() {
    for service in &SERVICES {
        let mut ada = Visitor::of(service).await;
        ada.log_in().await;
        let first = ada.process.token();
        ada.later();
        ada.process.renew().await.unwrap_or_else(|error| panic!("{}: {error}", service.name));
        assert_ne!(ada.process.token(), first, "{}", service.name);
        // it fails for a while
        service.fail(&ada.server.authority);
        ada.clock.advance(Duration::from_secs(31));
        let error = ada.process.renew().await.unwrap_err().to_string();
        assert!(ada.shown.is_empty() && error.contains("the authorization server"), "{}: {error}", service.name);
        ada.server.authority.recovers(Endpoint::Token);
        let second = ada.process.token();
        ada.process.renew().await.unwrap_or_else(|error| panic!("{}: {error}", service.name));
        assert_ne!(ada.process.token(), second, "{}", service.name);
        // and then for good: one page, and no second one
        service.end(&ada.server.authority);
        ada.later();
        ada.log_in().await;
        ada.server.authority.recovers(Endpoint::Token);
        ada.later();
        ada.process.renew().await.unwrap_or_else(|error| panic!("{}: {error}", service.name));
        assert!(ada.shown.is_empty(), "{}", service.name);
    }
}

#[tokio::test]
async fn up_024_a_service_that_hides_pkce_is_refused_unless_it_is_known_better() {
    for service in SERVICES.iter().filter(|service| service.hides_pkce()) {
        let server = ProtectedServer::start().await;
        service.play(&server.authority);
        let url = Url::parse(&server.url).unwrap();
        let resource = ResourceServer { url: &url, settings: &AuthorizationSettings::default() };
        let found = discover(&http(), resource, &BearerChallenge::default()).await;
        let error = found.unwrap_err().to_string();
        assert!(error.contains("`pkce = \"assume\"` (`--assume-pkce`)"), "{}: {error}", service.name);
    }
}

#[tokio::test]
async fn up_023_a_service_that_forgets_its_clients_gets_a_new_one_for_one_page_more() {
    let mut ada = Visitor::of(&SERVICES[0]).await;
    ada.log_in().await;
    ada.server.authority.forget_clients();
    ada.server.authority.take_log();
    ada.later();
    ada.log_in().await;
    let log = ada.server.authority.take_log();
    assert_eq!(log.iter().filter(|line| line.starts_with("register")).count(), 1, "{log:?}");
    assert!(ada.shown.is_empty());
}

#[tokio::test]
async fn up_021_a_configured_client_that_is_refused_sends_nobody_to_a_login() {
    let github = SERVICES.iter().find(|service| service.name == "GitHub").unwrap();
    let mut ada = Visitor::of(github).await;
    ada.log_in().await;
    ada.server.authority.knows_client(GIVEN.0, "changed");
    ada.later();
    let error = ada.process.renew().await.unwrap_err().to_string();
    assert!(error.contains("does not accept the client `given`") && error.contains("invalid_client"), "{error}");
    assert!(ada.shown.is_empty());
    ada.server.authority.knows_client(GIVEN.0, GIVEN.1);
    ada.clock.advance(Duration::from_hours(1));
    ada.process.renew().await.unwrap();
}
