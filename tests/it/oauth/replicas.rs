//! Two gateways on one PostgreSQL database: what is revoked at one is refused at the other, also after the other was cut off
//! from the database. `scripts/test-postgres` runs these tests.

use std::time::Duration;

use http::StatusCode;
use lockkeeper::{
    oauth::{MasterKeySource, OAuthSettings},
    storage::Storage,
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::gate;
use crate::{storage::postgres::schema, support::oauth::Authority};

const ACCEPTED: (StatusCode, bool) = (StatusCode::OK, false);
/// Time in which every gateway learns of a revocation.
const KNOWN_WITHIN: Duration = Duration::from_secs(1);

/// The way to the database, which can be cut off: what is sent then neither arrives nor fails.
struct Link {
    port: u16,
    open: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl Link {
    async fn to(server: &str) -> Self {
        let server = server.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (open, state) = watch::channel(true);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (server, state) = (server.clone(), state.clone());
                connections.spawn(carry(client, server, state));
            }
        });
        Self { port, open, _tasks: tasks }
    }

    fn cut(&self) {
        self.open.send_replace(false);
    }

    fn restore(&self) {
        self.open.send_replace(true);
    }
}

/// Carries bytes while the link is open; a connection that was cut stays so.
async fn carry(mut client: TcpStream, server: String, mut state: watch::Receiver<bool>) {
    state.wait_for(|open| *open).await.unwrap();
    let mut server = TcpStream::connect(server).await.unwrap();
    let cut = async {
        state.wait_for(|open| !open).await.map(drop).unwrap();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        () = cut => {}
    }
}

/// The gateways, and the link of the second one to the database.
struct Pair {
    first: Authority,
    second: Authority,
    link: Link,
    _folder: tempfile::TempDir,
}

impl Pair {
    async fn on(name: &str) -> Self {
        let (url, _) = schema(name).await;
        let address = url.split_once('@').unwrap().1.split_once('/').unwrap().0;
        let link = Link::to(address).await;
        let linked = url.replacen(address, &format!("127.0.0.1:{}", link.port), 1);
        let folder = tempfile::tempdir().unwrap();
        let settings = || OAuthSettings {
            master_key: MasterKeySource::File(folder.path().join("master.key")),
            ..Authority::settings()
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
    assert_eq!(pair.answer_of_second(revoked.expose()).await, (StatusCode::UNAUTHORIZED, false));
    assert_eq!(pair.answer_of_second(valid.expose()).await, ACCEPTED);
}
