//! The `backend` room, from outside.
#![expect(clippy::panic, reason = "a test that cannot go on says so by panicking")]

mod calls;
mod demo;
mod edges;
mod endpoint;
mod era;
mod extension;
mod flips;
mod http;
mod jobs;
mod modern;
mod peers;
mod question_slots;
mod reclaimed;
mod remembered;
mod settings;
mod standalone;
mod starts;
mod stdio;
mod tasks;
mod told;
mod websocket;
