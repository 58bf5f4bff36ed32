//! Servers that ask for further scopes, granted and not.

use std::{sync::Arc, time::Duration};

use lockkeeper::{
    model::RenewalError,
    oauth_client::{LoginFile, LoginName, OpenBrowser, TokenProvider},
    support::{ManualClock, OsRandom},
};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc;
use url::Url;

use super::{Process, login_at, visit};
use crate::kit::{
    authority::{Endpoint, answers},
    protected::ProtectedServer,
};

struct Person {
    server: ProtectedServer,
    clock: Arc<ManualClock>,
    process: Process,
    shown: mpsc::UnboundedReceiver<Url>,
    folder: TempDir,
}

impl Person {
    async fn new() -> Self {
        let (server, folder) = (ProtectedServer::start().await, tempfile::tempdir().unwrap());
        server.authority.differs(Endpoint::Resource, json!({ "scopes_supported": ["read"] }));
        server
            .authority
            .differs(Endpoint::Metadata, json!({ "scopes_supported": ["read", "write", "offline_access"] }));
        let clock = Arc::new(ManualClock::default());
        let (open, shown) = mpsc::unbounded_channel();
        let browser = OpenBrowser::new(move |url, _| drop(open.send(url.clone())));
        let process = Process::start(provider(&server, &folder, (browser, &clock)));
        Self { server, clock, process, shown, folder }
    }

    /// A request for a token; the person visits the page that it opens.
    async fn ask(&mut self, challenge: &str) -> (Result<(), RenewalError>, Option<Url>) {
        let bearer = self.process.bearer.clone();
        let renewed = bearer.renew(bearer.current(), vec![challenge.to_owned()]);
        let mut page = None;
        let outcome = tokio::select! {
            outcome = renewed => outcome,
            // the page ends with the request
            () = async {
                while let Some(url) = self.shown.recv().await {
                    page = Some(url.clone());
                    visit(url.as_str()).await;
                }
            } => unreachable!("the browser is never closed"),
        };
        (outcome, page)
    }
}

fn provider(
    server: &ProtectedServer,
    folder: &TempDir,
    (browser, clock): (OpenBrowser, &Arc<ManualClock>),
) -> TokenProvider {
    let url = Url::parse(&server.url).unwrap();
    let file = LoginFile::new(folder.path(), &url, LoginName::default());
    TokenProvider::new(login_at(&url, file), browser, Arc::<ManualClock>::clone(clock), Arc::new(OsRandom))
}

fn wants(scope: &str) -> String {
    format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"")
}

fn scope_of(page: &Url) -> String {
    page.query_pairs().find(|(name, _)| name == "scope").unwrap().1.into_owned()
}

#[tokio::test]
async fn up_028_a_scope_that_is_asked_for_and_never_granted_opens_one_page() {
    let mut ada = Person::new().await;
    let (outcome, page) = ada.ask("Bearer").await;
    outcome.unwrap();
    assert_eq!(scope_of(&page.unwrap()), "read offline_access");
    // what is granted stays the same, whatever is asked for
    ada.server.authority.differs(Endpoint::Token, json!({ "scope": "read" }));
    ada.clock.advance(Duration::from_secs(31));
    let (outcome, page) = ada.ask(&wants("write")).await;
    outcome.unwrap();
    assert_eq!(scope_of(&page.unwrap()), "read offline_access write", "those of the token too");
    for _ in 0..3 {
        ada.clock.advance(Duration::from_secs(31));
        let (outcome, page) = ada.ask(&wants("write")).await;
        let told = outcome.unwrap_err().to_string();
        assert!(told.contains("the scope `write`") && told.contains("--login` asks again"), "{told}");
        assert_eq!(page, None);
    }
    // another scope is another question
    let (outcome, page) = ada.ask(&wants("admin")).await;
    outcome.unwrap();
    assert_eq!(scope_of(&page.unwrap()), "read admin offline_access");
    // the person asks again
    let (open, mut shown) = mpsc::unbounded_channel();
    let browser = OpenBrowser::new(move |url, _| drop(open.send(url.clone())));
    let mut again = provider(&ada.server, &ada.folder, (browser, &ada.clock));
    ada.server.authority.differs(Endpoint::Token, json!({ "scope": "read write admin" }));
    let (outcome, page) = tokio::join!(again.log_in_now(), async {
        let url = shown.recv().await.unwrap();
        visit(url.as_str()).await;
        url
    });
    assert_eq!(outcome.unwrap().as_deref(), Some("read write admin"));
    assert_eq!(scope_of(&page), "read write admin offline_access");
}

#[tokio::test]
async fn up_028_a_person_who_refuses_further_scopes_keeps_the_tokens_that_work() {
    let mut ada = Person::new().await;
    ada.ask("Bearer").await.0.unwrap();
    let token = ada.process.token();
    ada.server.authority.answers_if(Endpoint::Authorize, |asked| {
        let back = format!("{}?error=access_denied&state={}", asked.get("redirect_uri"), asked.get("state"));
        Some(answers::redirect(&back))
    });
    ada.clock.advance(Duration::from_secs(31));
    let (outcome, page) = ada.ask(&wants("write")).await;
    assert!(page.is_some() && outcome.unwrap_err().to_string().contains("access_denied"));
    let (outcome, page) = ada.ask(&wants("write")).await;
    assert!(page.is_none() && outcome.unwrap_err().to_string().contains("not granted"));
    let again = ada.process.bearer.clone();
    again.renew(None, Vec::new()).await.unwrap();
    assert_eq!(ada.process.token(), token);
    assert!(ada.server.authority.access(&token).is_some());
}
