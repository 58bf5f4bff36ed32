//! The counted program: the gateway, or a floor in its place, and everything around it in one thread.

use std::{fmt::Write as _, fs, hint::black_box, io, net::SocketAddr, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{
    app::App,
    config::{self, CommandLineOptions, Environment},
    listener::{self, Accept, Lifecycle},
    support::{BackgroundWriter, Live},
    telemetry::{self, Telemetry},
};
use tokio::{
    io::{AsyncWriteExt as _, DuplexStream, duplex},
    net::TcpListener,
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    pair::{Pair, Transport},
    wire,
};
use crate::{
    client, floor, load,
    peers::Era,
    process::{Gateway, this_program},
    stdio_floor,
};

/// Capacity of an in-memory stream in bytes; the largest message is far smaller.
const STREAM: usize = 64 * 1024;

/// What is counted, and where.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A folder of its own.
    folder: PathBuf,
    /// The gateway's program, to create a key.
    program: PathBuf,
    /// Calls between two marks.
    calls: usize,
    /// The names of the pairs.
    pairs: Vec<String>,
}

/// Client streams, as the bench opens them.
struct Streams(mpsc::UnboundedReceiver<DuplexStream>);

/// A gateway that serves in-memory streams, and the servers behind it.
struct Served {
    connect: mpsc::UnboundedSender<DuplexStream>,
    key: String,
    /// The ports of the HTTP servers: legacy, modern.
    ports: [u16; 2],
    _app: App,
    tasks: JoinSet<Result<()>>,
}

/// A client on one connection.
struct Client {
    stream: DuplexStream,
    era: Era,
    /// Header lines of every request.
    fields: String,
    buffer: Vec<u8>,
    last_id: usize,
}

/// Makes the calls of every pair, and [`mark`]s the end of each half.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let mut served = Served::start(&arguments).await?;
    for pair in arguments.pairs.iter().filter_map(|name| Pair::exactly(name)) {
        let mut client = Client::open(&mut served, pair).await.with_context(|| pair.to_string())?;
        let tool = pair.tool();
        for half in 0..2 {
            for _ in 0..arguments.calls {
                client.call(&tool).await.with_context(|| pair.to_string())?;
            }
            mark(half);
        }
    }
    Ok(())
}

/// Makes callgrind write its counts and start again from zero.
#[inline(never)]
fn mark(half: usize) {
    black_box(half);
}

impl Accept for Streams {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, SocketAddr)> {
        match self.0.recv().await {
            Some(stream) => Ok((stream, SocketAddr::from(([127, 0, 0, 1], 1)))),
            None => std::future::pending().await,
        }
    }
}

// === impl Served ===

impl Served {
    async fn start(arguments: &Arguments) -> Result<Self> {
        let (mut tasks, mut ports) = (JoinSet::new(), [0; 2]);
        let mut configuration = String::new();
        for era in [Era::Legacy, Era::Modern] {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let name = if era == Era::Legacy { "legacy" } else { "modern" };
            let (port, program) = (listener.local_addr()?.port(), this_program()?.display().to_string());
            let _ = writeln!(configuration, "[servers.http-{name}]\nurl = \"http://127.0.0.1:{port}/mcp\"\n");
            let _ = writeln!(
                configuration,
                "[servers.stdio-{name}]\ncommand = {program:?}\nargs = [\"stdio\", {name:?}]\n"
            );
            ports[usize::from(era == Era::Modern)] = port;
            tasks.spawn(wire::serve(listener, era));
        }
        let folder = &arguments.folder;
        fs::write(folder.join("lockkeeper.toml"), configuration)?;
        let given = CommandLineOptions {
            config: Some(folder.join("lockkeeper.toml")),
            data_dir: Some(folder.join("data")),
            listen: Some("127.0.0.1:0".to_owned()),
            ..CommandLineOptions::default()
        };
        let config = config::load(&given, &Environment::default(), folder)?;
        let settings =
            telemetry::LogSettings { filter: config.log.filter.clone(), format: telemetry::LineFormat::Text };
        let limits = listener::ListenerSettings {
            connections: 64,
            limits: Live::new(config.limits.clone()),
            proxies: Vec::new(),
        };
        let log = BackgroundWriter::start(Box::new(io::stderr()), telemetry::report_lost_lines)?;
        let app = Box::pin(App::build(config, Telemetry::install(&settings, telemetry::Colours::Left, log)?)).await?;
        let key = Gateway::create_key(&arguments.program, folder)?;
        let (connect, streams) = mpsc::unbounded_channel();
        let lifecycle = Lifecycle {
            workers: listener::Workers::present(),
            tracker: TaskTracker::new(),
            drain: CancellationToken::new(),
            cancel: CancellationToken::new(),
        };
        let serving = listener::serve(Streams(streams), app.service(), limits, lifecycle);
        tasks.spawn(async move {
            serving.await;
            Ok(())
        });
        Ok(Self { connect, key, ports, _app: app, tasks })
    }

    /// A stream served by the gateway or a floor.
    fn stream(&mut self, pair: Pair) -> Result<DuplexStream> {
        let (stream, other) = duplex(STREAM);
        let port = self.ports[usize::from(pair.server == Era::Modern)];
        let floor = match pair.transport {
            Transport::Floor => floor::router(port),
            Transport::ReadingFloor => floor::reading_router(port),
            Transport::StdioFloor => stdio_floor::router(pair.server),
            Transport::Stdio | Transport::Http => {
                self.connect.send(other).ok().context("the gateway ended")?;
                return Ok(stream);
            }
        };
        self.tasks.spawn(floor::serve_connection(other, floor));
        Ok(stream)
    }
}

// === impl Client ===

impl Client {
    async fn open(served: &mut Served, pair: Pair) -> Result<Self> {
        let (stream, era) = (served.stream(pair)?, pair.client);
        let fields = format!(
            "host: 127.0.0.1\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\nauthorization: Bearer {}\r\n",
            served.key
        );
        let mut client = Self { stream, era, fields, buffer: Vec::with_capacity(STREAM), last_id: 1_000_000 };
        match era {
            Era::Legacy => client.open_session().await?,
            Era::Modern => client.fields += "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n",
        }
        Ok(client)
    }

    async fn open_session(&mut self) -> Result<()> {
        let answer = self.post("", client::HELLO).await?;
        let session = wire::field(answer.head, "mcp-session-id").context("no session")?.to_owned();
        let _ = write!(self.fields, "mcp-session-id: {session}\r\nmcp-protocol-version: 2025-11-25\r\n");
        self.post("", client::INITIALIZED).await?;
        Ok(())
    }

    async fn call(&mut self, tool: &str) -> Result<()> {
        self.last_id += 1;
        let id = self.last_id;
        let (field, message) = match self.era {
            Era::Legacy => (String::new(), load::call(id, tool)),
            Era::Modern => (format!("mcp-name: {tool}\r\n"), load::modern_call(id, tool)),
        };
        let answer = self.post(&field, &message).await?;
        load::check(answer.body, id)
    }

    async fn post(&mut self, field: &str, body: &str) -> Result<wire::Message<'_>> {
        let (fields, length) = (&self.fields, body.len());
        let request = format!("POST /mcp HTTP/1.1\r\n{fields}{field}content-length: {length}\r\n\r\n{body}");
        self.stream.write_all(request.as_bytes()).await?;
        let answer = wire::read(&mut self.stream, &mut self.buffer).await?.context("the connection ended")?;
        let succeeded = answer.head.starts_with(b"HTTP/1.1 20");
        ensure!(succeeded, "{}{}", String::from_utf8_lossy(answer.head), String::from_utf8_lossy(answer.body));
        Ok(answer)
    }
}
