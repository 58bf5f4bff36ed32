//! Documents of clients that the gateway cannot read because of its own network, told from those whose hosts fail.

use std::{sync::Arc, time::Duration};

use lockkeeper::{
    fetch::{Fetcher, ProxiedNetwork},
    model::{ClientIp, EgressProxy},
    oauth::{AuthorizationError, BeginOutcome, OAuthSettings, RequestSource},
};
use serde_json::{Value, json};

use crate::support::{
    internet::{Internet, json_response},
    oauth::{Authority, CALLBACK, FROM},
};

/// The id of a well-known client.
const KNOWN: &str = "https://claude.ai/oauth/claude-code-client-metadata";
/// Hosts of well-known clients.
const HOSTS: [&str; 2] = ["chatgpt.com", "claude.ai"];

/// A gateway in a network of its own.
struct World {
    internet: Internet,
    authority: Authority,
}

impl World {
    async fn new(internet: Internet) -> Self {
        let fetcher = internet.fetcher();
        Self::over(internet, fetcher).await
    }

    /// Behind a proxy that answers like this.
    async fn behind_proxy(answer: &'static str) -> Self {
        let internet = good_internet();
        internet.host("10.0.0.9", move |_| answer.to_owned());
        let proxy = EgressProxy::parse("http://10.0.0.9:3128").unwrap();
        let fetcher = internet.fetcher_over(Arc::new(ProxiedNetwork::new(proxy, Arc::new(internet.clone()))));
        Self::over(internet, fetcher).await
    }

    async fn over(internet: Internet, fetcher: Fetcher) -> Self {
        let document_hosts = HOSTS.map(str::to_owned).to_vec();
        let settings = OAuthSettings { fetcher: Some(fetcher), document_hosts, ..Authority::settings() };
        Self { internet, authority: Authority::with(settings).await }
    }

    async fn begin(&self, client: &str, source: RequestSource<'_>) -> BeginOutcome {
        self.authority.oauth.authorization().begin(&Authority::query(client, &[]), source).await
    }

    async fn page(&self, client: &str) -> AuthorizationError {
        match self.begin(client, FROM).await {
            BeginOutcome::Page(error) => error,
            other => panic!("{client}: {other:?}"),
        }
    }

    /// True if both kinds of metadata announce documents; false if neither does.
    async fn announces(&self) -> bool {
        let flag = async |name| {
            let metadata = self.authority.get(&format!("/.well-known/{name}")).await.json();
            metadata.get("client_id_metadata_document_supported").cloned()
        };
        let flags = [flag("oauth-authorization-server").await, flag("openid-configuration").await];
        assert_eq!(flags[0], flags[1]);
        flags[0] == Some(json!(true))
    }

    /// How often the name was looked up.
    fn lookups(&self, name: &str) -> usize {
        self.internet.seen().lookups.iter().filter(|one| *one == name).count()
    }
}

/// An internet with the hosts of well-known clients.
fn good_internet() -> Internet {
    let internet = Internet::new();
    for host in HOSTS {
        internet.name(host, &[&["1.1.1.1"]]);
    }
    internet.host("1.1.1.1", |_| json_response("", &document(KNOWN)));
    internet
}

fn document(client: &str) -> Value {
    json!({ "client_id": client, "client_name": "The app", "redirect_uris": [CALLBACK] })
}

fn assert_names_cause(page: &AuthorizationError, cause: &str) {
    assert_eq!((page.status, page.error), (502, "temporarily_unavailable"));
    for part in [cause, "claude.ai", "`egress_proxy`", "`client_documents = \"off\"`"] {
        assert!(page.description.contains(part), "{part}: {}", page.description);
    }
}

#[tokio::test]
async fn oa_149_documents_are_not_announced_while_this_gateway_reaches_no_host_and_one_success_restores_it() {
    let special: fn(&Internet) = |internet| {
        internet.name("claude.ai", &[&["198.18.0.4"]]);
        internet.name("chatgpt.com", &[&["fc00::5"]]);
    };
    let unnamed: fn(&Internet) = |internet| HOSTS.iter().for_each(|host| internet.forget(host));
    let cut: fn(&Internet) = |internet| internet.cut(true);
    for (fault, cause) in [(special, "special address"), (unnamed, "no name server"), (cut, "no route")] {
        let world = World::new(good_internet()).await;
        assert!(world.announces().await);
        fault(&world.internet);
        assert_names_cause(&world.page(KNOWN).await, cause);
        assert!(!world.announces().await, "{cause}");
        // the gateway looks once a minute, whoever tries whatever
        let looked = world.lookups("chatgpt.com");
        let stranger = RequestSource { from: ClientIp("192.0.2.9".parse().unwrap()), holder: None };
        for number in 0..5 {
            let _ = world.begin(&format!("https://claude.ai/{number}"), stranger).await;
        }
        assert_eq!((looked, world.lookups("chatgpt.com")), (1, 1), "{cause}");
        assert_names_cause(&world.page(KNOWN).await, cause);
        world.authority.clock.advance(Duration::from_mins(1));
        assert_names_cause(&world.page(KNOWN).await, cause);
        assert_eq!(world.lookups("chatgpt.com"), 2, "{cause}");
        // documents are read all the same
        for host in HOSTS {
            world.internet.name(host, &[&["1.1.1.1"]]);
        }
        world.internet.cut(false);
        let begun = world.begin(KNOWN, FROM).await;
        assert!(matches!(begun, BeginOutcome::Valid(_)), "{cause}: {begun:?}");
        assert!(world.announces().await, "{cause}");
    }
}

#[tokio::test]
async fn oa_149_what_a_host_does_that_a_stranger_chose_changes_nothing() {
    let world = World::new(good_internet()).await;
    for (name, address) in
        [("private.example", "10.0.0.1"), ("fake.example", "198.18.0.1"), ("closed.example", "9.9.9.9")]
    {
        world.internet.name(name, &[&[address]]);
    }
    let mut pages = Vec::new();
    for name in ["private.example", "fake.example", "closed.example", "unknown.example"] {
        world.authority.clock.advance(Duration::from_mins(1));
        let page = world.page(&format!("https://{name}/x")).await;
        pages.push((page.status, page.error, page.description.replace(name, "HOST")));
        assert!(world.announces().await, "{name}");
    }
    assert_eq!((pages[0].0, pages[0].1), (400, "invalid_client"));
    assert!(pages.windows(2).all(|pair| pair[0] == pair[1]), "{pages:?}");
}

#[tokio::test]
async fn oa_149_a_proxy_that_refuses_everything_is_told_from_one_that_refuses_a_strangers_host() {
    let refused = "HTTP/1.1 403 Forbidden\r\n\r\n";
    let world = World::behind_proxy(refused).await;
    world.internet.name("evil.example", &[&["2.2.2.2"]]);
    assert_eq!(world.page("https://evil.example/x").await.status, 400);
    assert!(world.announces().await);
    assert_names_cause(&world.page(KNOWN).await, "its proxy makes no connections");
    assert!(!world.announces().await);
    // what the stranger's hosts do next does not bring it back, and they are not told from one another
    world.internet.name("private.example", &[&["10.0.0.1"]]);
    for name in ["evil.example", "private.example", "unknown.example"] {
        assert_eq!(world.page(&format!("https://{name}/x")).await.status, 502, "{name}");
        assert!(!world.announces().await, "{name}");
    }
    for answer in ["HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "SSH-2.0-OpenSSH\r\n\r\n"] {
        let world = World::behind_proxy(answer).await;
        world.internet.name("evil.example", &[&["2.2.2.2"]]);
        assert_eq!(world.page("https://evil.example/x").await.status, 502, "{answer}");
        assert!(!world.announces().await, "{answer}");
    }
}

#[tokio::test]
async fn n_044_strangers_lock_nobody_out_of_a_host_and_no_known_client_out_of_their_network() {
    let world = World::new(good_internet()).await;
    let known = world.authority.code(&Authority::query(KNOWN, &[])).await;
    assert_eq!(world.authority.redeem(KNOWN, &known).await.status, 200);
    for network in 1..=3 {
        let from = ClientIp(std::net::IpAddr::from([192, 0, 2, network]));
        for number in 0..40 {
            let client = format!("https://claude.ai/{network}/{number}");
            let _ = world.begin(&client, RequestSource { from, holder: None }).await;
        }
    }
    // its copy is too old
    world.authority.clock.advance(Duration::from_hours(25));
    let hostile = RequestSource { from: ClientIp("192.0.2.3".parse().unwrap()), holder: None };
    for number in 0..40 {
        let _ = world.begin(&format!("https://claude.ai/3/{number}"), hostile).await;
    }
    let begun = world.begin(KNOWN, hostile).await;
    assert!(matches!(begun, BeginOutcome::Valid(_)), "{begun:?}");
    let other = "https://claude.ai/other";
    world.internet.host("1.1.1.1", move |_| json_response("", &document(other)));
    let elsewhere = RequestSource { from: ClientIp("198.51.100.9".parse().unwrap()), holder: None };
    let begun = world.begin(other, elsewhere).await;
    assert!(matches!(begun, BeginOutcome::Valid(_)), "{begun:?}");
}
