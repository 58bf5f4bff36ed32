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

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
        let text = String::from_utf8(std::mem::take(&mut *self.lines.0.lock().unwrap())).unwrap();
        text.lines().filter(|line| line.contains(words)).map(str::to_owned).collect()
    }
}
