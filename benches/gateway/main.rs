//! The cost of the gateway: latency and CPU time per call, compared with a direct call, nginx as a plain proxy and the
//! bare floor program, all interleaved in one run, so that a busy machine affects them equally. Authorization is on.
//!
//! `scripts/bench` runs it; `--json FILE` writes the figures too, `--seconds N` sets the length of a batch.

#![expect(clippy::print_stdout, reason = "figures are for standard output")]

mod channel;
mod channels;
mod client;
mod counts;
mod floor;
mod idle;
mod load;
mod peers;
mod process;
mod report;
mod secure;
mod servers;
mod stdio_floor;
mod train;
mod ways;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use load::Work;

/// The same as in the gateway's program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rounds of one batch per way. Enough that one disturbed batch does not change a median.
const ROUNDS: usize = 5;

/// The measured work, and the number of concurrent calls.
const LOADS: [(Work, usize); 8] = [
    (Work::Small, 1),
    (Work::Small, 16),
    (Work::Small, 64),
    (Work::Tls, 1),
    (Work::Tls, 16),
    (Work::Large, 16),
    (Work::Notes, 16),
    (Work::Session, 1),
];

/// How the bench was called; cargo adds `--bench`.
#[derive(Parser)]
struct Arguments {
    /// Given by `cargo bench`; without it (`cargo test --benches`) nothing is measured.
    #[arg(long, hide = true, global = true)]
    bench: bool,
    /// A file for the figures as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Seconds of one batch; there are five batches per way and number of calls at once.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Sessions with an open stream, of which each is weighed.
    #[arg(long, default_value_t = 1000)]
    sessions: usize,
    /// The program of the gateway: `scripts/bench` gives that of a release; else the one of this package.
    #[arg(long, default_value = env!("CARGO_BIN_EXE_lockkeeper"))]
    gateway: PathBuf,
    #[command(subcommand)]
    role: Option<Role>,
}

/// Another measurement, or what the bench starts itself as in other processes.
#[derive(Subcommand)]
enum Role {
    /// Counts instructions and allocations per call.
    Count(counts::Arguments),
    /// Makes the calls from which `scripts/program` learns what a call runs through.
    Train,
    /// What is counted: the gateway, its clients and its HTTP backends in one thread.
    #[command(hide = true)]
    Subject(counts::subject::Arguments),
    /// The fast Streamable HTTP backend.
    #[command(hide = true)]
    Http {
        /// The port on loopback.
        port: u16,
        /// Its version.
        era: peers::Era,
    },
    /// The fast backend behind HTTPS.
    #[command(hide = true)]
    Https {
        /// The port on loopback.
        port: u16,
        /// The file for its certificate.
        certificate: PathBuf,
    },
    /// The floor.
    #[command(hide = true)]
    Floor {
        /// The port on loopback.
        port: u16,
        /// The port of the backend.
        backend: u16,
    },
    /// The reading floor.
    #[command(hide = true)]
    ReadingFloor {
        /// The port on loopback.
        port: u16,
        /// The port of the backend.
        backend: u16,
    },
    /// The reading floor before a server on stdio.
    #[command(hide = true)]
    StdioFloor {
        /// The port on loopback.
        port: u16,
    },
    /// The fast backend over HTTP+SSE and WebSocket.
    #[command(hide = true)]
    Channels {
        /// The port on loopback.
        port: u16,
    },
    /// The fast backend on lines over TCP.
    #[command(hide = true)]
    Lines {
        /// The port on loopback.
        port: u16,
    },
    /// The fast backend on pipes.
    #[command(hide = true)]
    Stdio {
        /// Its version.
        #[arg(default_value = "legacy")]
        era: peers::Era,
    },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match arguments.role {
        Some(Role::Count(options)) => counts::run(&options),
        Some(Role::Train) => runtime.block_on(train::run(&arguments.gateway)),
        Some(Role::Subject(options)) => runtime.block_on(counts::subject::run(options)),
        Some(Role::Http { port, era }) => runtime.block_on(peers::http(port, era)),
        Some(Role::Https { port, certificate }) => runtime.block_on(secure::serve(port, &certificate)),
        Some(Role::Floor { port, backend }) => floor::serve(port, || floor::router(backend)),
        Some(Role::ReadingFloor { port, backend }) => floor::serve(port, || floor::reading_router(backend)),
        Some(Role::StdioFloor { port }) => {
            let router = stdio_floor::router(peers::Era::Legacy);
            floor::serve(port, || router.clone())
        }
        Some(Role::Channels { port }) => runtime.block_on(channels::http(port)),
        Some(Role::Lines { port }) => runtime.block_on(channels::lines(port)),
        Some(Role::Stdio { era }) => peers::stdio(era),
        None if !arguments.bench => Ok(()),
        None => runtime.block_on(measure(&arguments)),
    }
}

async fn measure(arguments: &Arguments) -> Result<()> {
    let batch = Duration::from_secs_f64(arguments.seconds);
    let mut bed = ways::Bed::lay(&arguments.gateway).await.context("the parts could not be started")?;
    let mut rows = Vec::new();
    println!("{}", report::Heading);
    for (work, at_once) in LOADS {
        let names = bed.ways.iter().filter(|way| way.work == work).map(|way| way.name);
        let mut measured: Vec<_> = names.map(|way| report::Measured { way, batches: Vec::new() }).collect();
        for round in 0..=ROUNDS {
            for (way, measured) in bed.ways.iter_mut().filter(|way| way.work == work).zip(&mut measured) {
                let batch = way.run(at_once, batch).await.with_context(|| format!("{}, {work:?}", way.name))?;
                // The first round only warms caches, pools and lazily started children.
                if round > 0 {
                    measured.batches.push(batch);
                }
            }
        }
        let measured = report::rows(work, at_once, &measured);
        for row in &measured {
            println!("{row}");
        }
        rows.extend(measured);
    }
    drop(bed);
    let report = report::Report {
        rows,
        start: idle::start_to_first_answer(&arguments.gateway).await.context("starts")?,
        idle: vec![
            idle::memory_per_stream(arguments.sessions).await.context("idle streams")?,
            idle::memory_per_session(&arguments.gateway, arguments.sessions).await.context("idle sessions")?,
        ],
        program_bytes: std::fs::metadata(&arguments.gateway)?.len(),
    };
    println!("{report}");
    if let Some(file) = &arguments.json {
        std::fs::write(file, report.json()?)?;
    }
    Ok(())
}
