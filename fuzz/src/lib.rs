//! Fuzz targets, each against an independent oracle. `cargo fuzz` runs them through `fuzz_targets/`; `tests/it/fuzz.rs`
//! compiles the same files by their path, and replays what is in `regressions/`.

pub mod challenge;
pub mod client_document;
pub mod codec;
pub mod cookies;
pub mod forwarded_for;
pub mod growth;
pub mod http_response;
pub mod input;
pub mod json_edit;
pub mod jwt_head;
pub mod lines;
pub mod listener;
pub mod message;
pub mod redirect_uri;
pub mod schemas;
pub mod sse;
pub mod translation;
pub mod tree;
pub mod websocket;

/// A target: its name, its check of one input, and inputs to begin with.
pub type Target = (&'static str, fn(&[u8]), fn() -> Vec<Vec<u8>>);

/// All targets.
pub const TARGETS: &[Target] = &[
    ("challenge", challenge::run, challenge::seeds),
    ("client_document", client_document::run, client_document::seeds),
    ("codec", codec::run, codec::seeds),
    ("cookies", cookies::run, cookies::seeds),
    ("forwarded_for", forwarded_for::run, forwarded_for::seeds),
    ("http_response", http_response::run, http_response::seeds),
    ("json_edit", json_edit::run, json_edit::seeds),
    ("jwt_head", jwt_head::run, jwt_head::seeds),
    ("lines", lines::run, lines::seeds),
    ("listener", listener::run, listener::seeds),
    ("message", message::run, message::seeds),
    ("redirect_uri", redirect_uri::run, redirect_uri::seeds),
    ("sse", sse::run, sse::seeds),
    ("translation", translation::run, translation::seeds),
    ("websocket", websocket::run, websocket::seeds),
];

/// Checks the files that the program is given.
pub fn check_files(check: fn(&[u8])) {
    for path in std::env::args_os().skip(1) {
        check(&std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
    }
}

/// Writes the inputs that a target begins with into the folder that `FUZZ_SEEDS` names, if it does.
#[expect(clippy::disallowed_methods, reason = "no configuration of the gateway")]
pub fn write_seeds(seeds: fn() -> Vec<Vec<u8>>) {
    let Some(folder) = std::env::var_os("FUZZ_SEEDS").map(std::path::PathBuf::from) else { return };
    for (index, seed) in seeds().into_iter().enumerate() {
        let path = folder.join(format!("seed-{index}"));
        std::fs::write(&path, seed).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
