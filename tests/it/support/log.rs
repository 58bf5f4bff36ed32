//! The log of a test.

use std::{
    io,
    sync::{Arc, Mutex},
};

/// The log of this thread, while the guard lives.
pub(crate) struct Log {
    lines: Lines,
    _guard: tracing::subscriber::DefaultGuard,
    /// With a single subscriber, a thread without one could disable a log line for good.
    _another: tracing::Dispatch,
}

/// What a log has written. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// The text since it was taken last.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

impl Log {
    pub(crate) fn open() -> Self {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let guard = tracing::subscriber::set_default(subscriber);
        Self { lines, _guard: guard, _another: tracing::Dispatch::new(tracing_subscriber::registry()) }
    }

    /// The lines with these words since the last call.
    pub(crate) fn lines(&self, words: &str) -> Vec<String> {
        self.lines.take().lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
    }
}
