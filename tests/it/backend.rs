//! The `backend` module, tested through its public interface.
#![expect(clippy::panic, reason = "a test that cannot go on says so by panicking")]

mod balancers;
mod calls;
mod channel_script;
mod client_settings;
mod compressed;
#[cfg(target_os = "linux")]
mod containment;
mod demo;
mod era;
mod era_changes;
pub(crate) mod eras;
#[cfg(target_os = "linux")]
mod escapes;
mod extensions;
mod first_calls;
mod http;
mod http_edge_cases;
mod lacking_features;
mod metrics;
mod modern;
mod question_slots;
mod reclaimed_slots;
mod remembered_eras;
mod renewed_tokens;
pub(crate) mod scripted_servers;
mod socket;
mod spares;
mod sse;
mod standalone;
mod starts;
mod stdio;
mod stream_questions;
mod task_notifications;
mod tasks;
mod tasks_extension;
mod tasks_over_sessions;
mod told_callers;
mod upgrades;
mod user_servers;
mod websocket;
