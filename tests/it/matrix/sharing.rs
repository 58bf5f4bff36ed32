//! Two users, one of them with two sessions, at shared and unshared servers.

use futures_util::{StreamExt as _, future::join_all, stream};
use lockkeeper::mcp::{Era, Revision};
use serde_json::{Value, json};

use super::{
    AT_ONCE, CLIENTS, TRANSPORTS,
    features::RELATED_TASK,
    gateways::replicas,
    world::{Behind, HOME, World},
};
use crate::kit::player::{Binding, Door, Pair, Player};

/// Sharing of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    Session,
    User,
    All,
}

/// The sharing sessions and servers.
struct Trio {
    share: Share,
    peers: Vec<Player>,
}

const NAMES: [&str; 3] = ["ann-1", "ann-2", "bob-1"];
/// The oldest and the newest: sharing depends on no version, apart from tasks.
const VERSIONS: [Revision; 2] = [Revision::V2024_11_05, Revision::V2025_11_25];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_shares_a_server_gets_what_is_theirs_and_nothing_of_others() {
    let mut cells = Vec::new();
    for share in [Share::Session, Share::User, Share::All] {
        for (transport, server) in
            TRANSPORTS.into_iter().flat_map(|transport| VERSIONS.map(|server| (transport, server)))
        {
            // one process less than sessions, so that some have to wait
            let home = if share == Share::Session || replicas() == 1 { "" } else { HOME };
            let behind = Behind { options: home.to_owned(), ..Behind::new(transport, server) };
            let behind = behind.with(share.name(), &format!("share = \"{}\"", share.name()));
            cells.push((share, behind.with("two", "parallel = 2")));
        }
    }
    let behind: Vec<Behind> = cells.iter().map(|(_, behind)| behind.clone()).collect();
    let world = World::of("", &behind).await;
    let (ann, bob) = (&world.site.key("ann"), &world.site.key("bob"));
    let talks = stream::iter(&cells).map(|(share, behind)| {
        let door = |key: &str| Door { key: key.to_owned(), ..world.door(&behind.name) };
        // a client on stdio has a gateway of its own
        let shares =
            |(binding, client): &(Binding, Revision)| client.era() == Era::Legacy && *binding != Binding::Stdio;
        async move {
            for (binding, client) in CLIENTS.into_iter().filter(shares) {
                let pair = Pair { binding, client, transport: behind.transport, server: behind.version };
                Trio::open(*share, [door(ann), door(ann), door(bob)], pair).await.talk(pair).await;
            }
        }
    });
    talks.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    world.stop().await;
}

impl Share {
    const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::User => "user",
            Self::All => "all",
        }
    }

    /// The peers that share a server with this one, itself included.
    fn beside(self, number: usize) -> Vec<usize> {
        match (self, number) {
            (Self::User, 0 | 1) => vec![0, 1],
            (Self::Session | Self::User, number) => vec![number],
            (Self::All, _) => vec![0, 1, 2],
        }
    }
}

impl Trio {
    async fn open(share: Share, doors: [Door; 3], pair: Pair) -> Self {
        let mut peers = Vec::new();
        for door in doors {
            peers.push(Player::open(door, pair).await);
        }
        Self { share, peers }
    }

    async fn talk(mut self, pair: Pair) {
        self.servers().await;
        self.questions().await;
        self.levels().await;
        self.subscriptions().await;
        self.changes().await;
        if pair.client == Revision::V2025_11_25 && pair.server == Revision::V2025_11_25 {
            self.tasks().await;
        }
        self.end().await;
    }

    fn begin(&mut self, feature: &'static str) {
        self.peers.iter_mut().for_each(|player| player.begin(feature));
    }

    /// Nobody got further messages, as far as the next answers show.
    async fn nothing_is_left(&mut self) {
        for player in &mut self.peers {
            player.play(json!([])).await;
            player.has_nothing_but_changes();
        }
    }

    /// The number of messages of a method at the server of this player.
    async fn count(&mut self, number: usize, method: &str) -> u64 {
        self.peers[number].play(json!([["count", method]])).await["count"].as_u64().unwrap()
    }

    async fn servers(&mut self) {
        self.begin("whose server");
        let mut who = Vec::new();
        for player in &mut self.peers {
            who.push(player.play(json!([["who"]])).await["who"].clone());
        }
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            let together = self.share.beside(one).contains(&other);
            assert_eq!(who[one] == who[other], together, "{:?}, {:?}: {who:?}", self.share, self.peers[0]);
        }
    }

    /// All peers make two concurrent calls with server requests; each request reaches its caller.
    async fn questions(&mut self) {
        self.begin("questions in parallel calls");
        let talks = self.peers.iter_mut().zip(NAMES).map(async |(player, name)| {
            let mut calls = Vec::new();
            for number in 0..2 {
                let question = format!("{name}-{number}");
                let asked = json!({ "_meta": { "x/owner": question } });
                let call = player.script(json!([["ask", question, "roots/list", asked], ["answer", question]])).await;
                calls.push((call, question));
            }
            for _ in 0..2 {
                let question = player.next("roots/list").await;
                let owner = question["params"]["_meta"]["x/owner"].as_str().unwrap().to_owned();
                assert!(owner.starts_with(name), "{player:?}: {name} is asked what is {owner}'s");
                player.reply(&question, json!({ "roots": [{ "uri": format!("file:///{owner}") }] })).await;
            }
            for (call, question) in calls {
                let told = player.told(&call).await;
                assert_eq!(told[&question]["roots"][0]["uri"], format!("file:///{question}"), "{player:?}");
            }
        });
        join_all(talks).await;
        self.nothing_is_left().await;
    }

    /// The server gets the most verbose level; each client gets its own.
    async fn levels(&mut self) {
        self.begin("levels");
        for (number, level) in [(0, "error"), (1, "debug")] {
            let answer = self.peers[number].ask("logging/setLevel", json!({ "level": level })).await;
            assert_eq!(answer["result"], json!({}), "{:?}", self.peers[number]);
        }
        for (number, alone) in [(0, "error"), (1, "debug")] {
            let wanted = if self.share == Share::Session { alone } else { "debug" };
            let told = self.peers[number].play(json!([["count", "logging/setLevel"]])).await;
            assert_eq!(told["last"]["level"], wanted, "{:?} {:?}", self.share, self.peers[number]);
        }
        if self.share != Share::All {
            assert_eq!(self.count(2, "logging/setLevel").await, 0, "{:?} {:?}", self.share, self.peers[2]);
        }
        for (number, hears) in [(0, false), (1, true), (2, true)] {
            let log = json!({ "level": "info", "data": NAMES[number] });
            let player = &mut self.peers[number];
            let call = player.script(json!([["tell", "notifications/message", log]])).await;
            if hears {
                assert_eq!(player.next("notifications/message").await["params"], log, "{player:?}");
            }
            player.told(&call).await;
        }
        self.nothing_is_left().await;
    }

    /// The first subscriber subscribes, the last unsubscribes, and those between still get updates.
    async fn subscriptions(&mut self) {
        self.begin("counted subscriptions");
        let uri = json!({ "uri": "x:r" });
        let mut before = Vec::new();
        for number in 0..3 {
            before.push((
                self.count(number, "resources/subscribe").await,
                self.count(number, "resources/unsubscribe").await,
            ));
        }
        for player in &mut self.peers {
            assert_eq!(player.ask("resources/subscribe", uri.clone()).await["result"], json!({}), "{player:?}");
        }
        for (number, (subscribed, _)) in before.iter().enumerate() {
            let count = self.count(number, "resources/subscribe").await;
            assert_eq!(count - subscribed, 1, "{:?} {:?}", self.share, self.peers[number]);
        }
        for number in 0..3 {
            self.updated(number, &self.share.beside(number)).await;
        }
        for (number, (_, unsubscribed)) in before.into_iter().enumerate() {
            let answer = self.peers[number].ask("resources/unsubscribe", uri.clone()).await;
            assert_eq!(answer["result"], json!({}), "{:?}", self.peers[number]);
            let left: Vec<usize> = self.share.beside(number).into_iter().filter(|other| *other > number).collect();
            let count = self.count(number, "resources/unsubscribe").await - unsubscribed;
            assert_eq!(count, u64::from(left.is_empty()), "{:?} {:?}", self.share, self.peers[number]);
            // a notification of an unshared server reaches its client even without a subscription
            let hear = if self.share == Share::Session { vec![number] } else { left };
            self.updated(number, &hear).await;
        }
    }

    /// The server of this player reports an update; exactly these peers get it, once.
    async fn updated(&mut self, number: usize, hear: &[usize]) {
        self.peers[number].play(json!([["aside", "notifications/resources/updated", { "uri": "x:r" }]])).await;
        for other in hear {
            let heard = self.peers[*other].next("notifications/resources/updated").await;
            assert_eq!(heard["params"]["uri"], "x:r", "{:?}", self.peers[*other]);
        }
        self.nothing_is_left().await;
    }

    async fn changes(&mut self) {
        self.begin("changes of lists");
        for number in 0..3 {
            self.peers[number].play(json!([["grow", "prompts"]])).await;
            for other in self.share.beside(number) {
                self.peers[other].next("notifications/prompts/list_changed").await;
            }
            self.nothing_is_left().await;
        }
    }

    /// A task belongs to the user and the app that created it: their other session finds it where it reaches the same
    /// server, and nobody else does.
    async fn tasks(&mut self) {
        self.begin("tasks");
        let call = json!({ "name": "script", "arguments": { "steps": [] }, "task": { "ttl": 60000 } });
        let made = self.peers[0].ask("tools/call", call).await["result"]["task"].clone();
        let task = json!({ "taskId": made["taskId"] });
        assert_eq!(self.peers[0].ask("tasks/get", task.clone()).await["result"], made);
        let other_session = &mut self.peers[1];
        let found = other_session.ask("tasks/get", task.clone()).await;
        if self.share == Share::Session {
            // an unshared server answers with its own error
            assert_eq!(found["error"]["code"], -32002, "{other_session:?}: {found}");
        } else {
            assert_eq!(found["result"], made, "{other_session:?}");
        }
        let stranger = &mut self.peers[2];
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            let refused = stranger.ask(method, task.clone()).await;
            assert_eq!(refused["error"]["code"], -32602, "{stranger:?}: {method} {refused}");
        }
        let listed = stranger.ask("tasks/list", json!({})).await;
        assert_eq!(listed["result"]["tasks"], json!([]), "{stranger:?}");
        // sent to the process that has the task; a call might go to the other one
        assert_eq!(
            self.peers[0].ask("tasks/result", task).await["result"]["_meta"][RELATED_TASK]["taskId"],
            made["taskId"]
        );
        for number in self.share.beside(0).into_iter().filter(|number| *number < 2) {
            let player = &mut self.peers[number];
            assert_eq!(
                player.next("notifications/tasks/status").await["params"]["taskId"],
                made["taskId"],
                "{player:?}"
            );
        }
        self.nothing_is_left().await;
    }

    /// A leaving client loses its settings.
    async fn end(mut self) {
        self.begin("the end of a session");
        let before = self.count(1, "resources/unsubscribe").await;
        self.peers[0].ask("resources/subscribe", json!({ "uri": "x:left" })).await;
        self.peers.remove(0).close().await;
        if self.share != Share::Session {
            let until = json!([["until", "resources/unsubscribe", before + 1], ["count", "resources/unsubscribe"]]);
            assert_eq!(self.peers[0].play(until).await["last"]["uri"], Value::from("x:left"), "{:?}", self.peers[0]);
        }
        for mut player in self.peers {
            player.has_nothing_but_changes();
            player.close().await;
        }
    }
}
