//! The reading floor for a stdio server: calls of all clients share one child process, as the calls of one session do.
//! Each call writes its own line and waits under its id; one task reads the answers.

use std::{
    collections::HashMap,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context as _, Result};
use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use clap::ValueEnum as _;
use lockkeeper::{
    mcp::{ErrorObject, Message, RequestId},
    wire::lines::line,
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{ChildStdin, ChildStdout, Command},
    sync::{OnceCell, oneshot},
    task::JoinSet,
};

use crate::{
    floor::{self, Inbound},
    peers::Era,
    process::this_program,
};

type Outcome = Result<Bytes, ErrorObject>;

/// The server behind the floor; the first request starts its process.
#[derive(Clone)]
struct Upstream {
    era: Era,
    server: Arc<OnceCell<Server>>,
}

struct Server {
    input: tokio::sync::Mutex<ChildStdin>,
    waiting: Arc<Waiting>,
    last_id: AtomicU64,
    _reader: JoinSet<Result<()>>,
}

/// The unanswered calls, by their ids at the server.
type Waiting = Mutex<HashMap<u64, oneshot::Sender<Outcome>>>;

/// A router of the floor for a server of this version.
pub(crate) fn router(era: Era) -> Router {
    Router::new().fallback(read_and_forward).with_state(Upstream { era, server: Arc::default() })
}

async fn read_and_forward(State(upstream): State<Upstream>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let answer = async {
        let message = floor::read(&mut parts, body).await?;
        upstream.exchange(message).await.ok()
    };
    match answer.await {
        Some(Some(answer)) => {
            // for every answer, since that costs little
            let session = ("mcp-session-id", "floor");
            ([(header::CONTENT_TYPE.as_str(), "application/json"), session], answer).into_response()
        }
        Some(None) => StatusCode::ACCEPTED.into_response(),
        None => StatusCode::BAD_GATEWAY.into_response(),
    }
}

// === impl Upstream ===

impl Upstream {
    /// Sends a message, and returns the answer to a request.
    async fn exchange(&self, message: Inbound) -> Result<Option<Bytes>> {
        let server = self.server.get_or_try_init(async || Server::start(self.era)).await?;
        let Inbound::Request { id, method, params } = message else { return Ok(None) };
        let number = server.last_id.fetch_add(1, Ordering::Relaxed);
        let (answered, answer) = oneshot::channel();
        server.waiting.lock().insert(number, answered);
        let line = line(Message::Request { id: RequestId::number(number), method, params }.encode());
        server.input.lock().await.write_all(&line).await?;
        Ok(Some(Message::Response { id: Some(id), outcome: answer.await? }.encode()))
    }
}

// === impl Server ===

impl Server {
    fn start(era: Era) -> Result<Self> {
        let era = era.to_possible_value().context("every version has a name")?;
        let mut command = Command::new(this_program()?);
        command.args(["stdio", era.get_name()]).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let (input, output) = (child.stdin.take().context("no input")?, child.stdout.take().context("no output")?);
        let waiting: Arc<Waiting> = Arc::default();
        let mut reader = JoinSet::new();
        let answered = Arc::clone(&waiting);
        reader.spawn(async move {
            let _child = child;
            read_answers(output, &answered).await
        });
        Ok(Self { input: input.into(), waiting, last_id: AtomicU64::new(1), _reader: reader })
    }
}

async fn read_answers(output: ChildStdout, waiting: &Waiting) -> Result<()> {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        if output.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        if let Message::Response { id: Some(id), outcome } = Message::parse(&line.into())? {
            let waits = id.as_number().and_then(|id| waiting.lock().remove(&id));
            // the caller may be gone
            waits.map(|waits| waits.send(outcome));
        }
    }
}
