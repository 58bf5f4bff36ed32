//! Shared by all tests.

pub(crate) mod assertion;
pub(crate) mod data_folder;
pub(crate) mod http;
pub(crate) mod internet;
pub(crate) mod link;
pub(crate) mod log;
pub(crate) mod log_of_database;
pub(crate) mod oauth;
pub(crate) mod strict;

use std::{fmt::Display, future::Future, time::Duration};

use lockkeeper::{config::Environment, storage::Storage};
use serde_json::Value;

/// Time after which something that should happen at once counts as never. Long, since machines are slow: it only turns a
/// test that would never end into a message.
const NEVER: Duration = Duration::from_mins(2);

/// An empty database: in memory, or on the PostgreSQL server that `LOCKKEEPER_TEST_POSTGRES` names.
pub(crate) async fn empty_storage() -> Storage {
    Storage::for_tests(postgres().as_deref()).await.unwrap()
}

/// The URL of the PostgreSQL server that `LOCKKEEPER_TEST_POSTGRES` names.
pub(crate) fn postgres() -> Option<String> {
    Environment::system().get("LOCKKEEPER_TEST_POSTGRES").map(str::to_owned)
}

/// Awaits what should happen at once; the test fails with the name of what did not. Not for tests with a paused clock.
pub(crate) async fn in_time<F: Future>(what: impl Display, future: F) -> F::Output {
    let output = tokio::time::timeout(NEVER, future).await;
    output.unwrap_or_else(|_| panic!("{what}: did not happen in {} s", NEVER.as_secs()))
}

/// True for progress of the gateway's own about a slow server, which depends on the machine.
pub(crate) fn depends_on_speed(params: &Value) -> bool {
    let text = params["message"].as_str().unwrap_or_default();
    let starts = text.starts_with("waiting for `") && text.ends_with("` to start");
    let works = params["progress"].as_f64().is_some_and(|progress| progress < 0.0) && text.contains("` is working (");
    !params["progressToken"].is_null() && (starts || works)
}
