//! The cost of carrying one message from version to version: time and allocations, by size, and for the path without
//! changes. Run with `cargo bench --bench translate`.

use bytes::Bytes;
use divan::{AllocProfiler, Bencher, counter::BytesCount};
use lockkeeper::mcp::{
    Facts, Method, Payload,
    Revision::{self, V2024_11_05, V2025_11_25, V2026_07_28},
    translate::Kind,
};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

/// Message sizes, in bytes of the text inside.
const SIZES: [usize; 3] = [1_000, 64_000, 1_000_000];

fn main() {
    divan::main();
}

/// Both sides speak the same version.
#[divan::bench(args = SIZES)]
fn same_version(bencher: Bencher<'_, '_>, size: usize) {
    cross(bencher, &Method::ToolsCall, Kind::Result, (V2025_11_25, V2025_11_25), &text(size));
}

/// The versions differ, but nothing in the message does.
#[divan::bench(args = SIZES)]
fn nothing_to_change(bencher: Bencher<'_, '_>, size: usize) {
    cross(bencher, &Method::ToolsCall, Kind::Result, (V2025_11_25, V2024_11_05), &text(size));
}

/// Resource links and structured content for a client that supports neither.
#[divan::bench(args = SIZES)]
fn result_lowered(bencher: Bencher<'_, '_>, size: usize) {
    let links: Vec<Value> = (0..size / 100)
        .map(|number| json!({ "type": "resource_link", "uri": format!("file:///{number}"), "name": "x".repeat(40) }))
        .collect();
    let result = json!({ "content": links, "structuredContent": { "text": "y".repeat(size / 4) } });
    cross(bencher, &Method::ToolsCall, Kind::Result, (V2025_11_25, V2024_11_05), &result);
}

/// A tool list of the newest version for a client of the oldest.
#[divan::bench(args = SIZES)]
fn tools_lowered(bencher: Bencher<'_, '_>, size: usize) {
    let tool = json!({
        "name": "tool", "title": "A tool", "description": "z".repeat(200),
        "inputSchema": { "type": "object", "properties": { "a": { "type": "string" }, "b": true } },
        "outputSchema": { "type": "array", "items": { "type": "number" } },
    });
    let tools = vec![tool; size / 400];
    let list = json!({ "tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private" });
    cross(bencher, &Method::ToolsList, Kind::Result, (V2026_07_28, V2024_11_05), &list);
}

/// A call from an old client to a server of the newest version.
#[divan::bench(args = SIZES)]
fn request_raised(bencher: Bencher<'_, '_>, size: usize) {
    let call = json!({ "name": "t", "arguments": { "text": "x".repeat(size) }, "_meta": { "progressToken": 1 } });
    cross(bencher, &Method::ToolsCall, Kind::Request, (V2024_11_05, V2026_07_28), &call);
}

fn text(size: usize) -> Value {
    json!({ "content": [{ "type": "text", "text": "x".repeat(size) }] })
}

fn cross(bencher: Bencher<'_, '_>, method: &Method, kind: Kind, (from, to): (Revision, Revision), message: &Value) {
    let json = Bytes::from(message.to_string());
    let facts = Facts::new(kind, method);
    bencher
        .counter(BytesCount::new(json.len()))
        .with_inputs(|| Payload::new(from, json.clone()))
        .bench_values(|payload| payload.into_revision(to, &facts));
}
