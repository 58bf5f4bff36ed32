//! Servers that move from one authorization server to another.

use std::sync::Arc;

use lockkeeper::{
    oauth_client::{Attempt, LoginFile, LoginName, OpenBrowser, TokenProvider},
    support::{ManualClock, OsRandom},
};
use tokio::{sync::mpsc, task::JoinSet};
use url::Url;

use super::{Process, login_at, visit};
use crate::kit::protected::ProtectedServer;

#[tokio::test]
async fn up_017_a_refresh_token_goes_to_no_other_authorization_server_than_its_own() {
    let (first, second) = (ProtectedServer::start().await, ProtectedServer::start().await);
    let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::default()));
    let (open, mut shown) = mpsc::unbounded_channel();
    let browser = OpenBrowser::new(move |url, attempt| drop(open.send((url.clone(), attempt))));
    let process = || {
        let server = Url::parse(&first.url).unwrap();
        let file = LoginFile::new(folder.path(), &server, LoginName::default());
        let target = login_at(&server, file);
        let given = Arc::<ManualClock>::clone(&clock);
        Process::start(TokenProvider::new(target, browser.clone(), given, Arc::new(OsRandom)))
    };
    let running = process();
    let (renewed, _) = tokio::join!(running.renew(), async { visit(shown.recv().await.unwrap().0.as_str()).await });
    renewed.unwrap();

    // the server moves: it rejects the token, and the one that its old authorization server gives for it
    first.names_issuers(&[second.authority.issuer()]);
    clock.advance(std::time::Duration::from_secs(31));
    running.renew().await.unwrap();
    // a token that was just issued is sent once more
    running.renew().await.unwrap();
    let mut waiting = JoinSet::new();
    waiting.spawn(running.renew());
    let (page, _) = shown.recv().await.unwrap();
    assert!(page.as_str().starts_with(second.authority.issuer()), "{page}");
    // the program dies while the new login waits
    drop((running, waiting));
    first.authority.take_log();
    second.authority.take_log();
    clock.advance(std::time::Duration::from_secs(31));
    let next = process();
    next.bearer.renew(None, Vec::new()).await.unwrap();
    next.renew().await.unwrap();
    next.renew().await.unwrap();
    let own = first.authority.take_heard();
    let token = format!("refresh_token=refresh-2-of-{}", first.authority.label());
    assert!(own.iter().any(|heard| heard.body.contains(&token)), "{own:?}");
    assert_eq!(second.authority.take_log(), [""; 0], "the other authorization server gets nothing");

    // the new login still waits; it replaces the old one as a whole
    let mut waiting = JoinSet::new();
    waiting.spawn(next.renew());
    assert_eq!(shown.recv().await.unwrap(), (page.clone(), Attempt::Resumed));
    visit(page.as_str()).await;
    waiting.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(next.token(), format!("access-1-of-{}", second.authority.label()));
    first.authority.take_log();
    second.authority.take_log();
    clock.advance(std::time::Duration::from_secs(31));
    next.renew().await.unwrap();
    assert_eq!(first.authority.take_log(), [""; 0]);
    assert_eq!(second.authority.take_log(), ["token refresh_token resource=mcp"]);
}
