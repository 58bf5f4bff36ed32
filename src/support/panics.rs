//! Panicking handlers: logs the panic and returns another value.

use std::{any::Any, panic::AssertUnwindSafe};

use futures_util::FutureExt as _;

/// Awaits the response of a handler, and returns `instead` if the handler panics (`OA-142`).
pub fn caught<T>(response: impl Future<Output = T>, instead: impl FnOnce() -> T) -> impl Future<Output = T> {
    // not an async function, whose future would hold the handler's twice
    AssertUnwindSafe(response).catch_unwind().map(|response| {
        response.unwrap_or_else(|panic| {
            log(&*panic);
            instead()
        })
    })
}

fn log(panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(panic = text.unwrap_or("(no message)"), "a handler panicked");
    metrics::counter!("lockkeeper_panics_total").increment(1);
}
