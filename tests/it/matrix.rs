//! The matrix: every client binding × every server binding, in every version × every common feature, by loops. The
//! gateway is the whole application on real sockets; the servers are those of the kit.
#![expect(clippy::panic, reason = "a test that cannot go on says so by panicking")]

mod asking;
mod chores;
mod contents;
mod features;
mod gateways;
mod methods;
mod offers;
mod questions;
mod sessions;
mod sharing;
mod stateless;
mod world;

use futures_util::{StreamExt as _, stream};
use lockkeeper::mcp::{Era, Revision};
use serde_json::json;

use self::{
    features::FEATURES,
    world::{Behind, ServedOn, World},
};
use crate::kit::player::{Binding, Pair, Player};

/// Transports of servers, in all versions.
const TRANSPORTS: [&str; 2] = ["stdio", "http"];
/// Further transports of servers, on which messages cross as on stdio, with the versions that are always tried.
/// `LOCKKEEPER_MATRIX=all` tries all versions, with all clients.
const CHANNELS: [(&str, &[Revision]); 3] = [
    ("sse", &[Revision::V2024_11_05, Revision::V2025_11_25]),
    ("ws", &[Revision::V2025_11_25, Revision::V2026_07_28]),
    ("unix", &[Revision::V2025_06_18, Revision::V2026_07_28]),
];
/// Clients of those servers: one of each binding, and one without a session. Every second one is tried with every second
/// server.
const CLIENTS_OF_CHANNELS: [(Binding, Revision); 5] = [
    (Binding::Sse, Revision::V2024_11_05),
    (Binding::Streamable, Revision::V2025_11_25),
    (Binding::Streamable, Revision::V2026_07_28),
    (Binding::WebSocket, Revision::V2025_06_18),
    (Binding::Stdio, Revision::V2025_11_25),
];
/// Bindings and versions of clients. WebSocket and stdio share the code of all versions: each has two or three that
/// differ.
const CLIENTS: [(Binding, Revision); 10] = [
    (Binding::Sse, Revision::V2024_11_05),
    (Binding::Streamable, Revision::V2025_03_26),
    (Binding::Streamable, Revision::V2025_06_18),
    (Binding::Streamable, Revision::V2025_11_25),
    (Binding::Sse, Revision::V2025_11_25),
    (Binding::Streamable, Revision::V2026_07_28),
    (Binding::WebSocket, Revision::V2025_06_18),
    (Binding::WebSocket, Revision::V2026_07_28),
    (Binding::Stdio, Revision::V2025_11_25),
    (Binding::Stdio, Revision::V2026_07_28),
];
/// Number of concurrent pairs.
const AT_ONCE: usize = 20;

impl Pair {
    /// The name of the pair's server. One of 2026-07-28 has no sessions to keep its clients apart, so each client has
    /// its own; so do two clients of 2026-07-28, who are one caller.
    fn backend(self) -> String {
        let Self { transport, server, client, binding } = self;
        let name = match (server.era(), client.era(), binding) {
            (Era::Legacy, Era::Modern, Binding::WebSocket) => format!("{transport}-{server}-ws"),
            (Era::Legacy, ..) => format!("{transport}-{server}"),
            (Era::Modern, _, Binding::Streamable) => format!("{transport}-{server}-{client}"),
            (Era::Modern, _, Binding::Sse) => format!("{transport}-{server}-{client}-sse"),
            (Era::Modern, _, Binding::WebSocket) => format!("{transport}-{server}-{client}-ws"),
            (Era::Modern, _, Binding::Stdio) => format!("{transport}-{server}-{client}-own"),
        };
        if self.has_home() { format!("{name}-1") } else { name }
    }

    /// True if one of several gateways has to run the server: its client has no session that stays with one of them, and
    /// asks in one request what another one did.
    fn has_home(self) -> bool {
        gateways::replicas() > 1 && self.client.era() == Era::Modern && self.served_on() == ServedOn::Network
    }

    /// True if the server answers on one channel for each connection, and knows nothing of the others.
    fn has_channel(self) -> bool {
        self.transport != "http"
    }

    /// The gateway that serves the pair.
    fn served_on(self) -> ServedOn {
        match (self.binding, self.server.era()) {
            (Binding::Stdio, Era::Modern) => ServedOn::Pipes,
            _ => ServedOn::Network,
        }
    }
}

/// The servers over channels that are tried.
fn channels() -> impl Iterator<Item = (&'static str, Revision)> {
    CHANNELS.into_iter().flat_map(|(transport, versions)| {
        let all = Revision::ALL.into_iter().filter(move |version| transport != "sse" || version.era() == Era::Legacy);
        all.filter(move |version| tries_all() || versions.contains(version)).map(move |version| (transport, version))
    })
}

#[expect(clippy::disallowed_methods, reason = "whoever runs the tests decides")]
fn tries_all() -> bool {
    std::env::var("LOCKKEEPER_MATRIX").is_ok_and(|which| which == "all")
}

fn pairs() -> Vec<Pair> {
    let pair = |(transport, server), (binding, client)| Pair { binding, client, transport, server };
    let servers = TRANSPORTS.into_iter().flat_map(|transport| Revision::ALL.map(|server| (transport, server)));
    let mut pairs: Vec<Pair> = servers.flat_map(|server| CLIENTS.map(|client| pair(server, client))).collect();
    for (at, server) in channels().enumerate() {
        if tries_all() {
            pairs.extend(CLIENTS.map(|client| pair(server, client)));
        } else {
            let clients = CLIENTS_OF_CHANNELS.into_iter().skip(at % 2).step_by(2);
            pairs.extend(clients.map(|client| pair(server, client)));
        }
    }
    pairs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_feature_crosses_between_every_pair() {
    let pairs = pairs();
    let world = World::start("", &pairs).await;
    let talks = stream::iter(pairs).map(|pair| {
        let world = &world;
        async move {
            let backend = pair.backend();
            let mut player = Player::open(world.door(&backend), pair).await;
            player.play(json!([])).await;
            let own = if player.is_stateless() { stateless::FEATURES } else { sessions::FEATURES };
            let asked: &[_] = if pair.server.era() == Era::Modern { asking::FEATURES } else { &[] };
            for (name, feature) in asked.iter().chain(FEATURES).chain(own) {
                player.begin(name);
                feature(&mut player, pair).await;
                player.nothing_is_left();
            }
            player.close().await;
        }
    });
    talks.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_nobody_answers_ends_in_its_time() {
    let pairs = pairs();
    // long enough for a server request that stays unanswered
    let world = World::start("server_request_timeout = \"1s\"", &pairs).await;
    let talks = stream::iter(pairs).map(|pair| {
        let world = &world;
        async move {
            let backend = pair.backend();
            let mut player = Player::open(world.door(&backend), pair).await;
            let (name, feature) = if player.is_stateless() { stateless::UNANSWERED } else { sessions::UNANSWERED };
            player.begin(name);
            feature(&mut player, pair).await;
            player.nothing_is_left();
            player.close().await;
        }
    });
    talks.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_method_and_every_content_is_right_in_the_version_of_who_gets_it() {
    let pairs = pairs();
    let world = World::start("", &pairs).await;
    let talks = stream::iter(pairs).map(|pair| {
        let door = pair.backend();
        let world = &world;
        async move {
            let door = world.door(&door);
            let mut player = Player::open_as(door.clone(), pair, questions::capabilities(pair.client)).await;
            player.play(json!([])).await;
            offers::cross(&mut player).await;
            contents::cross(&mut player).await;
            questions::cross(&mut player).await;
            methods::cross(&mut player).await;
            player.nothing_is_left();
            player.close().await;
            // on stdio each session would start another process, and a server of 2026-07-28 would get the ids of two gateways
            if pair.transport == "http" && pair.served_on() == ServedOn::Network {
                questions::undeclared(door, pair).await;
            }
        }
    });
    talks.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_era_of_a_server_is_found_out() {
    let servers = TRANSPORTS.into_iter().flat_map(|transport| Revision::ALL.map(|server| (transport, server)));
    let servers = servers.chain(channels());
    let behind: Vec<Behind> =
        servers.map(|(transport, server)| Behind::new(transport, server).of_unknown_era()).collect();
    let world = World::of("", &behind).await;
    for Behind { name, transport, version, .. } in &behind {
        let pair = |client| Pair { binding: Binding::Streamable, client, transport, server: *version };
        for client in [Revision::NEWEST_LEGACY, Revision::V2026_07_28] {
            let mut player = Player::open(world.door(name), pair(client)).await;
            player.begin("the era of a server");
            let told = player.play(json!([["progress", 1], ["who"]])).await;
            assert!(told["who"].is_string(), "{player:?}: {told}");
            player.next("notifications/progress").await;
            player.nothing_is_left();
        }
    }
    world.stop().await;
}
