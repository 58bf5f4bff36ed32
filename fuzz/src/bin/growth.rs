//! Measures what each parser and transformer writes, holds and takes while its input grows, and prints a table. Exits 1 if one
//! is above its bound.
//!
//!     cargo run --release --bin growth              all functions, up to 12 MB
//!     cargo run --release --bin growth json         those whose name contains `json`
//!
//! Time is that of the processor in the program itself, without that of the system for new pages of memory. It is compared within
//! this run: the time for each byte of the largest input with that of one of 64 KB.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    fmt::Write as _,
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use bytes::Bytes;
use lockkeeper_fuzz::growth::{FUNCTIONS, Function, Shape};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike as _,
};

/// Sizes of inputs in bytes, about ten times each. Times are compared between [`MIDDLE`] and the last.
const SIZES: [usize; 5] = [1 << 10, 8 << 10, MIDDLE, 1 << 20, 12 << 20];
const MIDDLE: usize = 64 << 10;
/// The most that the time for a byte may grow from [`MIDDLE`] to the largest size.
const MAX_RATIO: f64 = 4.0;
/// A longer time is measured once, and a shorter one three times.
const LONG_MICROS: f64 = 20_000.0;
/// A shorter time is measured by repetition.
const LEAST_MICROS: i64 = 3_000;
/// The time for one byte that is not told from less: what fits into a cache is read and copied many times faster than what does
/// not, and 12 MB in 12 ms are no fault.
const LEAST_MICROS_PER_BYTE: f64 = 0.001;
/// A shorter time for the largest input is no fault whatever the ratio: it is that of the clock.
const NEGLIGIBLE_MICROS: f64 = 2_000.0;

/// Counts the bytes that are held.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn add(bytes: usize) {
    PEAK.fetch_max(HELD.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

// SAFETY: every call is passed on to the allocator of the system as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // both are held while the content is moved
        add(size);
        HELD.fetch_sub(layout.size(), Relaxed);
        unsafe { System.realloc(block, layout, size) }
    }
}

/// The worst of a function: the value, and its shape.
#[derive(Clone, Copy)]
struct Worst {
    factor: f64,
    shape: &'static str,
}

struct Row {
    output: Worst,
    memory: Worst,
    time: Worst,
    largest: usize,
    above: Vec<String>,
}

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let mut table = String::from(
        "| Function | Bound of output | Measured | Bound of memory | Measured | Time for a byte, largest to 64 KB | Largest input |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let mut above = Vec::new();
    let mut shapes = Vec::new();
    for function in FUNCTIONS.iter().filter(|function| function.name.contains(&wanted)) {
        let row = measure(function);
        let bound = |(factor, constant): (usize, usize)| format!("{factor} × + {}", bytes(constant));
        let worst = |worst: Worst| format!("{:.2} × ({})", worst.factor, worst.shape);
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {} | {} | {} |",
            function.name,
            bound(function.output),
            worst(row.output),
            bound(function.memory),
            worst(row.memory),
            worst(row.time),
            bytes(row.largest)
        );
        eprintln!("{}", table.lines().last().unwrap_or_default());
        above.extend(row.above);
        shapes.extend((function.shapes)().iter().map(|shape| shape.name));
    }
    shapes.sort_unstable();
    shapes.dedup();
    println!("{table}\n{} shapes.", shapes.len());
    above.iter().for_each(|line| println!("above its bound: {line}"));
    if above.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn bytes(count: usize) -> String {
    match count {
        0..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{} KB", count >> 10),
        _ => format!("{} MB", count >> 20),
    }
}

fn measure(function: &Function) -> Row {
    let none = Worst { factor: 0.0, shape: "-" };
    let mut row = Row { output: none, memory: none, time: none, largest: 0, above: Vec::new() };
    for shape in (function.shapes)() {
        measure_shape(function, shape, &mut row);
    }
    row
}

#[expect(clippy::cast_precision_loss, reason = "a factor is printed with two digits")]
fn measure_shape(function: &Function, shape: Shape, row: &mut Row) {
    let mut middle = None;
    let mut last = None;
    for size in SIZES.into_iter().filter(|size| *size <= function.largest) {
        let input = Bytes::from((shape.make)(size));
        let held = HELD.load(Relaxed);
        PEAK.store(held, Relaxed);
        let Some(output) = (function.run)(&input) else { break };
        let memory = PEAK.load(Relaxed).saturating_sub(held);
        let length = input.len();
        // what a constant explains is no growth
        let factor = |measured: usize, constant: usize| measured.saturating_sub(constant) as f64 / length as f64;
        let found = [
            (output, function.output, function.most_output(length), &mut row.output, "output"),
            (memory, function.memory, function.most_memory(length), &mut row.memory, "memory"),
        ];
        for (measured, (_, constant), most, worst, what) in found {
            if factor(measured, constant) > worst.factor {
                *worst = Worst { factor: factor(measured, constant), shape: shape.name };
            }
            if measured > most {
                row.above.push(format!("{}: {what} {measured} of {length} bytes: {}", function.name, shape.name));
            }
        }
        row.largest = row.largest.max(length);
        if size == MIDDLE {
            middle = Some(input);
        } else if size > MIDDLE {
            last = Some(input);
        }
    }
    let (Some(middle), Some(last)) = (middle, last) else { return };
    let (short, long) = (micros(function, &middle), micros(function, &last));
    let ratio = (long / last.len() as f64) / (short / middle.len() as f64).max(LEAST_MICROS_PER_BYTE);
    if long < NEGLIGIBLE_MICROS {
        return;
    }
    if ratio > row.time.factor {
        row.time = Worst { factor: ratio, shape: shape.name };
    }
    if ratio > MAX_RATIO {
        row.above.push(format!(
            "{}: time for a byte × {ratio:.1} at {}: {}",
            function.name,
            bytes(last.len()),
            shape.name
        ));
    }
}

/// The least time of three, in microseconds.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn micros(function: &Function, input: &Bytes) -> f64 {
    let once = |_| {
        let (before, mut times) = (now(), 0_u32);
        loop {
            std::hint::black_box((function.run)(input));
            times += 1;
            let taken = now() - before;
            if taken >= LEAST_MICROS || times == 1_000 {
                return taken as f64 / f64::from(times);
            }
        }
    };
    let first = once(0);
    // a long time has less noise
    let more = if first > LONG_MICROS { 0 } else { 2 };
    (0..more).map(once).fold(first, f64::min)
}

/// The time of this thread on the processor, without that in the system.
fn now() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.user_time().num_microseconds())
}
