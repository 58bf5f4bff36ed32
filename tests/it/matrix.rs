//! The matrix: every client binding × every server binding in every version × every feature that crosses, by loops. The
//! gateway is the whole application on real sockets; the servers are processes that do what a call says.
#![expect(clippy::panic, reason = "a test that cannot go on says so by panicking")]

mod chores;
mod contents;
mod features;
mod methods;
mod offers;
pub(crate) mod peer;
mod questions;
mod sessions;
mod sharing;
mod stateless;
pub(crate) mod tap;
pub(crate) mod world;

use futures_util::{StreamExt as _, stream};
use lockkeeper::mcp::Revision;

use self::{
    features::FEATURES,
    peer::{Binding, Peer},
    world::World,
};

/// How the gateway reaches a server.
const TRANSPORTS: [&str; 2] = ["stdio", "http"];
/// How a client reaches the gateway, and in which version.
const CLIENTS: [(Binding, Revision); 6] = [
    (Binding::Sse, Revision::V2024_11_05),
    (Binding::Streamable, Revision::V2025_03_26),
    (Binding::Streamable, Revision::V2025_06_18),
    (Binding::Streamable, Revision::V2025_11_25),
    (Binding::Sse, Revision::V2025_11_25),
    (Binding::Streamable, Revision::V2026_07_28),
];
/// How many pairs talk at once.
const AT_ONCE: usize = 20;

/// One pair of versions and bindings.
#[derive(Debug, Clone, Copy)]
struct Pair {
    binding: Binding,
    client: Revision,
    transport: &'static str,
    server: Revision,
}

impl Pair {
    /// The name of the server that the grid has for it.
    fn backend(self) -> String {
        format!("{}-{}", self.transport, self.server)
    }
}

fn pairs() -> Vec<Pair> {
    let servers = TRANSPORTS.into_iter().flat_map(|transport| Revision::LEGACY.map(|server| (transport, server)));
    servers
        .flat_map(|(transport, server)| CLIENTS.map(|(binding, client)| Pair { binding, client, transport, server }))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_feature_crosses_between_every_pair() {
    let world = World::start().await;
    let talks = stream::iter(pairs()).map(|pair| {
        let world = &world;
        async move {
            let backend = pair.backend();
            let mut peer = Peer::open(world.door(&backend), pair).await;
            let own = if peer.is_stateless() { stateless::FEATURES } else { sessions::FEATURES };
            for (name, feature) in FEATURES.iter().chain(own) {
                peer.begin(name);
                feature(&mut peer, pair).await;
                peer.nothing_is_left();
            }
        }
    });
    talks.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_method_and_every_content_is_right_in_the_version_of_who_gets_it() {
    let world = World::start().await;
    let talks = stream::iter(pairs()).map(|pair| {
        let door = pair.backend();
        let world = &world;
        async move {
            let door = world.door(&door);
            let mut peer = Peer::open_as(door, pair, &questions::capabilities(pair.client)).await;
            offers::cross(&mut peer).await;
            contents::cross(&mut peer).await;
            questions::cross(&mut peer).await;
            methods::cross(&mut peer).await;
            peer.nothing_is_left();
            // on stdio each session would start a process more, to no other end
            if pair.transport == "http" {
                questions::undeclared(door, pair).await;
            }
        }
    });
    talks.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    world.stop().await;
}
