//! What a panic becomes: a log entry for the operator, and a 500 that tells nothing of the inside (`OA-142`).

use std::{any::Any, panic::AssertUnwindSafe};

use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use http::StatusCode;

use super::refusal::Refusal;

/// Awaits the answer of a handler, and answers in its place where it panics.
pub async fn caught(answer: impl Future<Output = Response>) -> Response {
    match AssertUnwindSafe(answer).catch_unwind().await {
        Ok(answer) => answer,
        Err(panic) => {
            log(&*panic);
            let description = "The gateway failed at this request. The log has the reason under this request id.";
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", description).into_response()
        }
    }
}

fn log(panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("(no message)"), "a handler panicked");
    metrics::counter!("lockkeeper_panics_total").increment(1);
}
