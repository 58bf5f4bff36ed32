//! The `lockkeeper` command.

use std::process::ExitCode;

use lockkeeper::{cli, support::launcher};

/// A call makes dozens of allocations (`benches/gateway/counts.json`); mimalloc makes them cheaper than the C library.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(code) = launcher::run(std::env::args_os()) {
        return code;
    }
    launcher::close_to_others();
    cli::run(std::env::args_os(), cli::ProcessContext::system()).into()
}
