//! A client secret, and the authorization server that it is for.

use lockkeeper::{
    model::AuthorizationSettings,
    oauth_client::{ClientIdentity, LoginError, LoginFile, LoginName, LoginTarget, OpenBrowser, TokenProvider},
    support::{OsRandom, Secret, SystemClock},
};
use tempfile::TempDir;
use tokio::sync::mpsc;
use url::Url;

use super::{login_at, visit};
use crate::kit::{authority::Heard, protected::ProtectedServer};

/// Logs in at the first server, as a client with a secret for `issuer`. The person approves every page.
async fn log_in(server: &ProtectedServer, issuer: &str) -> Result<(), LoginError> {
    let folder = TempDir::new().unwrap();
    let (open, mut shown) = mpsc::unbounded_channel();
    let browser = OpenBrowser::new(move |url, _| drop(open.send(url.clone())));
    let settings = AuthorizationSettings { issuer: Some(issuer.to_owned()), ..AuthorizationSettings::default() };
    let server = Url::parse(&server.url).unwrap();
    let identity = ClientIdentity::given("mine", Some(Secret::new("s3cret")), &settings).unwrap();
    let file = LoginFile::new(folder.path(), &server, LoginName::default());
    let target = LoginTarget { identity, settings, ..login_at(&server, file) };
    let mut provider =
        TokenProvider::new(target, browser, std::sync::Arc::new(SystemClock), std::sync::Arc::new(OsRandom));
    let person = async {
        let url = shown.recv().await.unwrap();
        visit(url.as_str()).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        outcome = provider.log_in_now() => outcome.map(drop),
        () = person => Ok(()),
    }
}

#[tokio::test]
async fn up_018_the_secret_of_a_client_goes_to_no_other_issuer_than_its_own() {
    let (server, evil) = (ProtectedServer::start().await, ProtectedServer::start().await);
    let (issuer, other) = (server.authority.issuer(), evil.authority.issuer());
    server.authority.knows_client("mine", "s3cret");
    server.names_issuers(&[other]);
    let refused = log_in(&server, issuer).await.unwrap_err().to_string();
    assert!(refused.contains(issuer) && refused.contains(other), "{refused}");
    assert_eq!(evil.authority.take_log(), [""; 0]);
    // several are listed: the issuer is the choice, a slash at its end aside
    server.names_issuers(&[other, issuer]);
    log_in(&server, &format!("{issuer}/")).await.unwrap();
    let heard = server.authority.take_heard();
    let with_secret = |heard: &&Heard| heard.authorization.starts_with("Basic ");
    let codes = heard.iter().filter(with_secret).filter(|heard| heard.line.starts_with("token authorization_code"));
    assert_eq!(codes.count(), 1, "{heard:?}");
    assert_eq!(evil.authority.take_log(), [""; 0]);
}

#[tokio::test]
async fn up_018_a_secret_without_an_issuer_is_no_identity() {
    let settings = AuthorizationSettings::default();
    assert!(ClientIdentity::given("mine", Some(Secret::new("s")), &settings).is_err());
    assert!(ClientIdentity::given("mine", None, &settings).is_ok());
}
