//! Window to collect further server requests, so that the client gets all of them at once (`translation` 4b).

use std::time::Duration;

use futures_util::future;
use tokio::time::{Instant, sleep_until};

/// Length of the window.
const LENGTH: Duration = Duration::from_millis(25);

/// A window that opens with the first request.
#[derive(Default)]
pub(super) struct Window(Option<Instant>);

impl Window {
    /// Opens a new window.
    pub(super) fn opened() -> Self {
        Self(Some(Instant::now() + LENGTH))
    }

    /// Opens the window, unless it is open.
    pub(super) fn open(&mut self) {
        self.0.get_or_insert_with(|| Instant::now() + LENGTH);
    }

    pub(super) fn close(&mut self) {
        self.0 = None;
    }

    /// Waits for the end of the window, forever if it is closed.
    pub(super) async fn over(&self) {
        match self.0 {
            Some(end) => sleep_until(end).await,
            None => future::pending().await,
        }
    }
}
