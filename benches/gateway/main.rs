//! What the gateway costs: latency and CPU time per call, beside a direct call and beside nginx as a plain
//! proxy, all in one run and interleaved, so that a busy machine weighs on each alike. Authorization is on.
//!
//! `scripts/bench` runs it; `--json FILE` writes the figures too, `--seconds N` sets the length of a batch.

#![expect(clippy::print_stdout, reason = "figures are for standard output")]

mod client;
mod counts;
mod idle;
mod load;
mod peers;
mod process;
mod report;
mod ways;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};

/// Rounds of one batch per way. Enough that one disturbed batch does not move a median.
const ROUNDS: usize = 5;

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
    /// The gateway's program, to measure another build; else the one of this package.
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
    /// What is counted: the gateway, its clients and its HTTP backends in one thread.
    #[command(hide = true)]
    Subject(counts::subject::Arguments),
    /// The fast Streamable HTTP backend.
    #[command(hide = true)]
    Http {
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
        Some(Role::Subject(options)) => runtime.block_on(counts::subject::run(options)),
        Some(Role::Http { port }) => runtime.block_on(peers::http(port, peers::Era::Legacy)),
        Some(Role::Stdio { era }) => peers::stdio(era),
        None if !arguments.bench => Ok(()),
        None => runtime.block_on(measure(&arguments)),
    }
}

async fn measure(arguments: &Arguments) -> Result<()> {
    let batch = Duration::from_secs_f64(arguments.seconds);
    let mut bed = ways::Bed::lay(&arguments.gateway).await.context("the parts could not be started")?;
    let mut rows = Vec::new();
    for at_once in [1, 16] {
        let mut measured: Vec<load::Figures> = bed.ways.iter().map(|_| load::Figures::default()).collect();
        for round in 0..=ROUNDS {
            for (way, figures) in bed.ways.iter_mut().zip(&mut measured) {
                let batch = way.run(at_once, batch).await.with_context(|| way.name.to_owned())?;
                // The first round only warms caches, pools and lazily started children.
                if round > 0 {
                    figures.add(batch);
                }
            }
        }
        rows.extend(bed.ways.iter().zip(measured).map(|(way, figures)| report::Row::new(way.name, at_once, figures)));
    }
    drop(bed);
    let report = report::Report {
        rows,
        start: idle::start_to_first_answer(&arguments.gateway).await.context("starts")?,
        idle: idle::memory_per_session(&arguments.gateway, arguments.sessions).await.context("idle sessions")?,
    };
    println!("{report}");
    if let Some(file) = &arguments.json {
        std::fs::write(file, report.json()?)?;
    }
    Ok(())
}
