//! A server that follows the steps in each call. It speaks its own version regardless of the one offered, and offers
//! every member of that version (`scripted/offers.json`). Its tools take `steps`, a list of lists: see [`steps`].
//! Everything it receives is recorded. With a [`Script`], it offers only what that contains.

mod both;
mod headers;
mod listens;
mod offers;
mod rounds;
mod script;
mod session;
mod state;
mod stateless;
mod steps;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use lockkeeper::mcp::{Era, Revision};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::{
    both::BothEras,
    session::LegacySession,
    state::{Core, State},
    stateless::StatelessServer,
};
use super::{
    carriers::{Actor, Process, Program, Session},
    outlet::Outlet,
    record::Record,
};

pub(crate) use self::{
    offers::Offers,
    script::{Gate, Script},
};

/// A scripted server of one version.
pub(crate) struct ScriptedServer {
    offers: Arc<Offers>,
    record: Arc<Record>,
    /// Number of gateways that connect to it: each numbers its requests from one.
    gateways: usize,
    /// Its offers to clients that ask what it supports, if it has both eras.
    modern: Option<Arc<Offers>>,
    gate: Gate,
    program: Program,
}

impl ScriptedServer {
    pub(crate) fn new(version: Revision, record: Arc<Record>, gateways: usize) -> Self {
        Self::offering(Offers::of(version), record, gateways)
    }

    /// A server with a script, for one gateway.
    pub(crate) fn scripted(version: Revision, script: Script) -> Self {
        Self::offering(Offers::scripted(version, script), Arc::default(), 1)
    }

    /// A server of both eras with a script.
    pub(crate) fn of_both_eras(script: &Script) -> Self {
        let discovered = json!([["give", { "result": {
            "resultType": "complete",
            "supportedVersions": [Revision::V2026_07_28.as_str(), Revision::NEWEST_LEGACY.as_str()],
            "capabilities": { "tools": {} }, "ttlMs": 0, "cacheScope": "private",
        } }]]);
        let modern = script.clone().usual("initialize").on("server/discover", discovered);
        let modern = Some(Arc::new(Offers::scripted(Revision::V2026_07_28, modern)));
        Self { modern, ..Self::scripted(Revision::NEWEST_LEGACY, script.clone()) }
    }

    fn offering(offers: Offers, record: Arc<Record>, gateways: usize) -> Self {
        let (gate, program) = (Gate::opened(), Program::default());
        Self { offers: Arc::new(offers), record, gateways, modern: None, gate, program }
    }

    /// The same with a gate.
    pub(crate) fn behind(self, gate: &Gate) -> Self {
        Self { gate: gate.clone(), ..self }
    }

    /// The same, run as this program.
    pub(crate) fn run_as(self, program: Program) -> Self {
        Self { program, ..self }
    }

    fn core(&self, offers: &Arc<Offers>, aside: &Outlet, process: Value) -> Core {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Core {
            name: format!("{:08x}", LAST.fetch_add(1, Ordering::Relaxed)),
            aside: aside.clone(),
            notes: self.record.begin(offers.version),
            offers: Arc::clone(offers),
            gateways: self.gateways,
            state: State::of(offers),
            end: CancellationToken::new(),
            gate: self.gate.clone(),
            process,
        }
    }

    fn session(&self, aside: &Outlet, process: Value) -> Arc<dyn Session> {
        let core = self.core(&self.offers, aside, process.clone());
        if let Some(modern) = &self.modern {
            let modern = Core { end: core.end.clone(), ..self.core(modern, aside, process) };
            return Arc::new(BothEras::new(LegacySession(Arc::new(core)), StatelessServer(Arc::new(modern))));
        }
        match self.offers.version.era() {
            Era::Legacy => Arc::new(LegacySession(Arc::new(core))),
            Era::Modern => Arc::new(StatelessServer(Arc::new(core))),
        }
    }
}

impl Actor for ScriptedServer {
    fn open(&self, aside: Outlet) -> Arc<dyn Session> {
        self.session(&aside, Value::Null)
    }

    fn open_program(&self, process: Process, aside: Outlet) -> Arc<dyn Session> {
        self.session(&aside, serde_json::to_value(process).unwrap())
    }

    fn has_sessions(&self) -> bool {
        self.offers.version.era() == Era::Legacy
    }

    fn program(&self) -> Program {
        self.program.clone()
    }
}
