//! Servers that gateways start as programs, with a journal of everything that the programs read; also for tests without
//! a runtime.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::future::BoxFuture;
use lockkeeper::model::{StdioSpec, TransportSpec};
use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use super::{
    carriers::{Actor, Carrier, Hosted, Process, Program, Received, Session},
    outlet::Outlet,
};

/// Line for a start, followed by the process id.
const STARTED: &str = "started ";
/// Line for the end of a connection.
const CLOSED: &str = "stdin closed";

/// A server that runs until it is dropped.
pub(crate) struct ProgramServer {
    hosted: Hosted,
    journal: Journal,
    /// The server's own runtime, in a test without one.
    _runtime: Option<Runtime>,
}

/// The lines that programs read, unchanged, with a line for each start and each end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal(Arc<watch::Sender<String>>);

/// A server that changes at each start.
pub(crate) struct ChangingServer {
    at_start: Box<AtStart>,
    starts: AtomicUsize,
}

/// The server for the start with this number, counted from zero.
type AtStart = dyn Fn(usize) -> Arc<dyn Actor> + Send + Sync;

/// A server with a journal.
struct Journaled {
    actor: Arc<dyn Actor>,
    journal: Journal,
}

struct JournaledSession {
    session: Arc<dyn Session>,
    journal: Journal,
}

// === impl ProgramServer ===

impl ProgramServer {
    /// Needs the runtime of the test.
    pub(crate) fn start(actor: impl Actor) -> Self {
        Self::with_journal(actor, Journal::default())
    }

    /// A server that continues this journal.
    pub(crate) fn with_journal(actor: impl Actor, journal: Journal) -> Self {
        let actor = Journaled { actor: Arc::new(actor), journal: journal.clone() };
        Self { hosted: Hosted::start(Carrier::Stdio, Arc::new(actor)), journal, _runtime: None }
    }

    /// The server of a test without a runtime.
    pub(crate) fn in_background(actor: impl Actor) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = {
            let _entered = runtime.enter();
            Self::start(actor)
        };
        Self { _runtime: Some(runtime), ..server }
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn transport(&self) -> TransportSpec {
        self.hosted.transport()
    }

    /// The lines of the server's section.
    pub(crate) fn lines(&self) -> String {
        self.hosted.lines()
    }

    /// A shell script that runs the program with the script's arguments.
    pub(crate) fn script(&self) -> String {
        let TransportSpec::Stdio(StdioSpec { command, args, .. }) = self.transport() else { panic!("a program") };
        let mut script = format!("exec {command}");
        for arg in args {
            write!(script, " '{}'", arg.replace('\'', r"'\''")).unwrap();
        }
        script + " \"$@\"\n"
    }
}

// === impl Journal ===

impl Journal {
    pub(crate) fn text(&self) -> String {
        self.0.borrow().clone()
    }

    /// The text so far; the journal starts again empty.
    pub(crate) fn take(&self) -> String {
        self.0.send_replace(String::new())
    }

    /// The number of lines that contain this text.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.0.borrow().lines().filter(|line| line.contains(text)).count()
    }

    /// The process ids, in the order of starts.
    pub(crate) fn processes(&self) -> Vec<i32> {
        self.0.borrow().lines().filter_map(|line| line.strip_prefix(STARTED)?.parse().ok()).collect()
    }

    /// Waits until the journal meets a condition; returns its text.
    pub(crate) async fn until(&self, mut is_so: impl FnMut(&str) -> bool) -> String {
        // `self` holds the sender, so it cannot be gone
        self.0.subscribe().wait_for(|text| is_so(text)).await.unwrap().clone()
    }

    fn write(&self, line: &str) {
        self.0.send_modify(|text| {
            text.push_str(line);
            text.push('\n');
        });
    }
}

// === impl ChangingServer ===

impl ChangingServer {
    pub(crate) fn new<S: Actor>(at_start: impl Fn(usize) -> S + Send + Sync + 'static) -> Self {
        Self { at_start: Box::new(move |number| Arc::new(at_start(number))), starts: AtomicUsize::new(0) }
    }

    fn next(&self) -> Arc<dyn Actor> {
        (self.at_start)(self.starts.fetch_add(1, Ordering::Relaxed))
    }
}

impl Actor for ChangingServer {
    fn open(&self, aside: Outlet) -> Arc<dyn Session> {
        self.next().open(aside)
    }

    fn open_program(&self, process: Process, aside: Outlet) -> Arc<dyn Session> {
        self.next().open_program(process, aside)
    }

    fn has_sessions(&self) -> bool {
        true
    }
}

// === impl Journaled ===

impl Actor for Journaled {
    fn open(&self, aside: Outlet) -> Arc<dyn Session> {
        self.actor.open(aside)
    }

    fn open_program(&self, process: Process, aside: Outlet) -> Arc<dyn Session> {
        self.journal.write(&format!("{STARTED}{}", process.pid));
        let session = self.actor.open_program(process, aside);
        Arc::new(JournaledSession { session, journal: self.journal.clone() })
    }

    fn has_sessions(&self) -> bool {
        self.actor.has_sessions()
    }

    fn program(&self) -> Program {
        self.actor.program()
    }
}

// === impl JournaledSession ===

impl Session for JournaledSession {
    fn take(self: Arc<Self>, received: Received, outlet: Outlet) -> BoxFuture<'static, ()> {
        Arc::clone(&self.session).take(received, outlet)
    }

    fn read(&self, line: &[u8]) {
        self.journal.write(&String::from_utf8_lossy(line));
    }

    fn misused(&self, verb: &str) {
        self.session.misused(verb);
    }

    fn closed(&self) {
        self.journal.write(CLOSED);
        self.session.closed();
    }

    fn is_deaf(&self) -> bool {
        self.session.is_deaf()
    }

    fn end(&self) -> &CancellationToken {
        self.session.end()
    }
}
