//! What a panic becomes: a log entry for the operator, and a 500 that tells nothing of the inside (`OA-142`).

use std::any::Any;

use axum::response::{IntoResponse as _, Response};
use http::StatusCode;

use super::refusal::Refusal;

/// Logs the panic and answers for the handler that it ended.
#[expect(clippy::needless_pass_by_value, reason = "the panic layer gives the payload away")]
pub fn answer(panic: Box<dyn Any + Send>) -> Response {
    log(&*panic);
    let description = "The gateway failed at this request. The log has the reason under this request id.";
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", description).into_response()
}

fn log(panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("(no message)"), "a handler panicked");
    metrics::counter!("lockkeeper_panics_total").increment(1);
}
