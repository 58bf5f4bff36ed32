//! The vectors of the group `shape` through the whole gateway: a scripted client of the one version, a scripted server of
//! the other, and what travels between them.
//!
//! Each vector says which conversation carries it: across, at the door of the clients, behind at the servers. All that
//! need no gateway of their own talk through one, each before a server of its own, on stdio and on HTTP. Those of further
//! files (`TRANSLATION_VECTORS`, a path list) go the same ways where their form allows it.

mod across;
mod behind;
mod canned;
mod client;
mod compare;
mod door;
mod plan;
mod scene;
mod servers;
mod stage;
pub(crate) mod vector;

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, stream};
use serde_json::Value;

use self::{
    plan::Plan,
    scene::Scene,
    stage::{Behind, Stage, Transport},
    vector::Vector,
};

/// How many vectors talk at once.
const AT_ONCE: usize = 8;

/// A client of 2026-07-28 that declares the tasks extension waits for the task like one that does not.
const NO_TASK: &str = "the client gets nothing";
/// What it is told of a task.
const UNKNOWN_TASK: &str = "-32602";

/// The vectors with a side that is not served yet, and what becomes of them: each is played, and the one that comes out
/// as expected, or fails for another reason, must leave.
const NOT_SERVED: &[(&str, &str)] = &[("R27", NO_TASK), ("R29", UNKNOWN_TASK)];

/// The way that a vector goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
    Door,
    Stream,
    Behind,
    Greeting,
    Park,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shape_vector_crosses_the_gateway_as_expected() {
    let vectors: Vec<Vector> = vector::own().into_iter().filter(Vector::is_shape).collect();
    let faults = judge(&vectors).await;
    let mut wrong = Vec::new();
    for vector in &vectors {
        let not_served = NOT_SERVED.iter().find(|(id, _)| *id == vector.id).map(|(_, words)| *words);
        match (faults.get(&vector.id), not_served) {
            (Some(faults), Some(words)) if faults.iter().all(|fault| fault.contains(words)) => {}
            (Some(faults), _) => wrong.push(faults.join("\n")),
            (None, Some(_)) => wrong.push(format!("{}: comes out as expected, and is listed", vector.id)),
            (None, None) => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn further_vectors_cross_the_gateway_as_expected_where_their_form_allows_it() {
    let fits = |vector: &Vector| {
        vector.is_shape()
            && !vector.is_modern()
            && vector.way().is_some()
            && NOT_SERVED.iter().all(|(id, _)| *id != vector.id)
    };
    let vectors: Vec<Vector> = vector::further().into_iter().filter(fits).collect();
    let faults = judge(&vectors).await;
    assert!(faults.is_empty(), "{}", faults.into_values().flatten().collect::<Vec<_>>().join("\n"));
}

/// What does not come out as expected, by the ids of the vectors.
async fn judge(vectors: &[Vector]) -> BTreeMap<String, Vec<String>> {
    let mut faults: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (merged, alone): (Vec<&Vector>, Vec<&Vector>) = vectors.iter().partition(|vector| vector.is_merged());
    let talks: Vec<(&Vector, Transport)> =
        alone.iter().flat_map(|vector| vector.transports().into_iter().map(|transport| (*vector, transport))).collect();
    let name = |index: usize, transport: Transport| format!("v{index}-{transport:?}").to_lowercase();
    let behind = talks.iter().enumerate().map(|(index, (vector, transport))| Behind {
        name: name(index, *transport),
        transport: *transport,
        plan: Plan::of(vector),
    });
    let mut stage = Stage::before(behind.collect()).await;
    let scenes: Vec<_> = talks
        .iter()
        .enumerate()
        .map(|(index, (vector, transport))| (*transport, Scene::alone(vector, &mut stage, &name(index, *transport))))
        .collect();
    let verdicts = stream::iter(scenes).map(async |(transport, scene)| {
        let id = scene.vector.id.clone();
        (id, transport, scene.play().await)
    });
    let mut verdicts: Vec<_> = verdicts.buffer_unordered(AT_ONCE).collect().await;
    stage.stop().await;
    for vector in merged {
        verdicts.push((vector.id.clone(), Transport::Http, vector.play_merged().await));
    }
    for (id, transport, verdict) in verdicts {
        if let Err(fault) = verdict {
            faults.entry(id.clone()).or_default().push(format!("{id} by {transport:?}: {fault}"));
        }
    }
    faults
}

// === impl Scene ===

impl Scene<'_> {
    /// Lets the vector go its way.
    async fn play(self) -> Result<(), String> {
        match self.vector.way().ok_or("no conversation carries it")? {
            Way::ToServer => across::to_server(self).await,
            Way::ToClient => across::to_client(self).await,
            Way::Door => door::answers(self).await,
            Way::Stream => door::opens_a_stream(self).await,
            Way::Behind => behind::answers(self).await,
            Way::Greeting => behind::greets_again(self).await,
            Way::Park => behind::parks(self).await,
        }
    }
}

// === impl Vector ===

impl Vector {
    /// The conversation that carries it; `None` where none can.
    fn way(&self) -> Option<Way> {
        let (given, expect) = (self.given(), &self.expect);
        let message = self.expected().is_some();
        let speaks = given.get("jsonrpc").is_some();
        match self.direction.as_str() {
            _ if self.ctx.get("park").is_some() => Some(Way::Park),
            _ if given.get("sse").is_some() => Some(Way::Stream),
            _ if given.get("parts").is_some() => Some(Way::ToClient),
            "client>backend" if speaks && message => Some(Way::ToServer),
            "backend>client" if speaks && (message || self.steps("client", "out").count() == 1) => Some(Way::ToClient),
            "backend>client" if given.is_array() => Some(Way::ToClient),
            "client>gateway" if message || expect.get("http").is_some() || expect.get("sse").is_some() => {
                Some(Way::Door)
            }
            "backend>gateway" if speaks && message => Some(Way::Behind),
            "backend>gateway" if speaks && self.answered() == Some("initialize") => Some(Way::Greeting),
            _ => None,
        }
    }

    /// Whether it is about the endpoint of all servers.
    fn is_merged(&self) -> bool {
        let given = self.given();
        let cursor = given["params"]["cursor"].as_str().unwrap_or_default();
        self.ctx.get("backend").is_some()
            || self.ctx.get("park").is_some()
            || given.get("parts").is_some()
            || cursor.starts_with("gwc1.")
    }

    /// How its server is reached.
    fn transports(&self) -> Vec<Transport> {
        match self.ctx["transport"].as_str() {
            Some("stdio") => vec![Transport::Stdio],
            Some(_) => vec![Transport::Http],
            None if self.direction == "client>gateway" || self.expect.get("http").is_some() => vec![Transport::Http],
            None if self.given().get("sse").is_some() || self.is_modern() => vec![Transport::Http],
            None => vec![Transport::Http, Transport::Stdio],
        }
    }

    /// Goes through a gateway of its own.
    async fn play_merged(&self) -> Result<(), String> {
        let given = self.given();
        let parts = given["parts"].as_array().into_iter().flatten();
        let mut behind: Vec<Behind> = parts.map(|part| self.part(part)).collect();
        if behind.is_empty() {
            let name = self.ctx["backend"].as_str().unwrap_or("b1").to_owned();
            behind.push(Behind { name, transport: Transport::Http, plan: Plan::of(self) });
        }
        let name = behind.last().map(|one| one.name.clone()).ok_or("no parts")?;
        // what waits for its client is given up soon
        let limits = if self.ctx.get("park").is_some() { ", question_timeout = \"1s\"" } else { "" };
        let mut stage = Stage::bounded(behind, limits).await;
        let verdict = Scene::merged(self, &mut stage, &name).play().await;
        stage.stop().await;
        verdict
    }

    fn part(&self, part: &Value) -> Behind {
        let text = |name: &str| part[name].as_str().unwrap_or_default().to_owned();
        let there = part.get("msg").is_some();
        let plan = Plan::answering(&text("v"), self.answered().unwrap_or_default(), &part["msg"]);
        Behind { name: text("backend"), transport: if there { Transport::Http } else { Transport::Nowhere }, plan }
    }
}
