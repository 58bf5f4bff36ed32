//! The vectors of both groups through the whole gateway: a scripted client of one version, a scripted server of the
//! other, and the messages between them.
//!
//! The form of a vector selects its conversation: forwarding, an answer to the client, or an answer to the server.
//! Vectors without needs of their own share one gateway, each with its own server, on stdio and on HTTP. Further files
//! (`TRANSLATION_VECTORS`, a path list) are played alike; a vector without a conversation is a failure.

mod answers_to_client;
mod answers_to_server;
mod compare;
mod conversation;
mod forwarding;
mod implied_messages;
mod inputs;
mod leaving;
mod listening;
mod plan;
mod probing;
mod rounds;
mod scene;
mod stage;
mod steps;
mod suspension;
mod tasks;
pub(crate) mod vector;

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, stream};
use serde_json::Value;

use self::{
    conversation::Conversation,
    plan::Plan,
    scene::Scene,
    stage::{Behind, Stage, Transport},
    vector::Vector,
};

/// The number of concurrent vectors.
const AT_ONCE: usize = 8;

/// Vectors that are not served yet, and their failures. Exact: a vector that passes or fails for another reason must
/// leave.
const NOT_SERVED: &[(&str, &str)] = &[];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shape_vector_crosses_the_gateway_as_expected() {
    every_one_passes(vector::own().into_iter().filter(Vector::is_shape).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_era_vector_crosses_the_gateway_as_expected() {
    every_one_passes(vector::own().into_iter().filter(|vector| !vector.is_shape()).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn further_vectors_cross_the_gateway_as_expected() {
    let (playable, odd): (Vec<Vector>, Vec<Vector>) =
        vector::further().into_iter().partition(|vector| vector.conversation().is_some());
    let odd: Vec<String> = odd.iter().map(Vector::unplayable).collect();
    assert!(odd.is_empty(), "{}", odd.join("\n"));
    every_one_passes(playable).await;
}

/// Plays the vectors, and compares the failures with the expected ones.
async fn every_one_passes(vectors: Vec<Vector>) {
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

/// The failures, by vector id.
async fn judge(vectors: &[Vector]) -> BTreeMap<String, Vec<String>> {
    let mut faults: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (apart, alone): (Vec<&Vector>, Vec<&Vector>) = vectors.iter().partition(|vector| vector.is_apart());
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
    let scenes: Vec<_> = stream::iter(scenes)
        .then(async |(transport, scene)| (transport, Box::pin(scene.begins()).await))
        .collect()
        .await;
    let verdicts = stream::iter(scenes).map(async |(transport, scene)| {
        let id = scene.vector.id.clone();
        (id, transport, scene.play().await)
    });
    let mut verdicts: Vec<_> = verdicts.buffer_unordered(AT_ONCE).collect().await;
    stage.stop().await;
    for vector in apart {
        verdicts.push((vector.id.clone(), Transport::Http, vector.play_apart().await));
    }
    for (id, transport, verdict) in verdicts {
        if let Err(fault) = verdict {
            faults.entry(id.clone()).or_default().push(format!("{id} by {transport:?}: {fault}"));
        }
    }
    faults
}

// === impl Vector ===

impl Vector {
    /// Plays the vector with a gateway of its own.
    async fn play_apart(&self) -> Result<(), String> {
        let given = self.given();
        let parts = given["parts"].as_array().into_iter().flatten();
        let mut behind: Vec<Behind> = parts.map(|part| self.part(part)).collect();
        if behind.is_empty() {
            let tool = given["params"]["name"].as_str().and_then(|name| name.split_once("__"));
            let merged = self.merged_backend();
            let name = self.ctx["backend"].as_str().or(merged.as_deref()).or(tool.map(|(backend, _)| backend));
            let name = name.unwrap_or("b1").to_owned();
            behind.push(Behind { name, transport: Transport::Http, plan: Plan::of(self) });
        }
        let name = behind.last().map(|one| one.name.clone()).ok_or("no parts")?;
        // a suspended call times out soon
        let limits = if given.get("timeout").is_some() { ", server_request_timeout = \"1s\"" } else { "" };
        let http = if self.ctx["modern_only"] == true { "[http]\nlegacy_clients = false\n" } else { "" };
        let mut stage = Stage::set(behind, limits, http).await;
        let scene = Scene::merged(self, &mut stage, &name);
        if self.conversation() == Some(Conversation::Shutdown) {
            return listening::ends(scene, stage).await;
        }
        let verdict = scene.play().await;
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
