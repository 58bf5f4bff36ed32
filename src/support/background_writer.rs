//! A writer that never waits for its reader: text goes through a bounded queue to a thread of its own.

use std::{io, io::Write, mem, sync::Arc, thread, time::Duration};

use parking_lot::{Condvar, Mutex};

/// Maximum number of waiting bytes. As many again may be in transit to the reader.
const MAX_WAITING: usize = 4 * 1024 * 1024;
/// Bytes of one write: as many as a pipe writes in one piece (POSIX, `PIPE_BUF` on Linux).
const MAX_WRITE: usize = 4096;
/// Maximum size of a buffer kept for the next lines.
const MAX_KEPT: usize = 64 * 1024;
/// Pause before retrying a target that accepts nothing at present.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A handle of the queue. The thread ends with the last handle, once everything is written. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BackgroundWriter(Arc<Handle>);

/// Called with the number of lost lines, once the reader reads again.
pub type ReportLost = fn(u64);

#[derive(Debug)]
struct Handle(Arc<SharedQueue>);

#[derive(Debug, Default)]
struct SharedQueue {
    queue: Mutex<Queue>,
    /// Signalled when the thread has something to do.
    work: Condvar,
    /// Signalled when everything is written.
    idle: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// Complete lines that wait to be written.
    waiting: Vec<u8>,
    /// Lines lost since the last report.
    lost: u64,
    is_writing: bool,
    is_ended: bool,
}

// === impl BackgroundWriter ===

impl BackgroundWriter {
    /// Starts the thread for `target`. Lines that do not fit in the queue, or that the target refuses, are lost;
    /// `report` is called on the thread.
    ///
    /// # Errors
    ///
    /// If the system provides no thread.
    pub fn start(target: Box<dyn Write + Send>, report: ReportLost) -> io::Result<Self> {
        let shared = Arc::<SharedQueue>::default();
        let writing = Arc::clone(&shared);
        thread::Builder::new().name("log".to_owned()).spawn(move || writing.run(target, report))?;
        Ok(Self(Arc::new(Handle(shared))))
    }

    /// Waits until everything is written, at most for this time.
    pub fn finish(&self, within: Duration) {
        let SharedQueue { queue, idle, .. } = &*self.0.0;
        let is_busy = |queue: &mut Queue| queue.is_writing || !queue.waiting.is_empty();
        let _ = idle.wait_while_for(&mut queue.lock(), is_busy, within);
    }
}

impl Write for BackgroundWriter {
    /// Puts whole lines into the queue, or drops them. Never fails.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let SharedQueue { queue, work, .. } = &*self.0.0;
        let mut queue = queue.lock();
        if queue.waiting.len() + lines.len() > MAX_WAITING {
            queue.lose(lines);
        } else {
            queue.waiting.extend_from_slice(lines);
            if !queue.is_writing {
                work.notify_one();
            }
        }
        Ok(lines.len())
    }

    /// Does nothing: see [`BackgroundWriter::finish`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.queue.lock().is_ended = true;
        self.0.work.notify_one();
    }
}

// === impl Queue ===

impl Queue {
    fn lose(&mut self, lines: &[u8]) {
        let count = count_lines(lines);
        self.lost += count;
        metrics::counter!("lockkeeper_log_lines_dropped_total").increment(count);
    }
}

fn count_lines(lines: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', lines).count() as u64
}

// === impl SharedQueue ===

impl SharedQueue {
    /// Writes lines as they come, until the end.
    fn run(&self, mut target: Box<dyn Write + Send>, report: ReportLost) {
        let mut batch = Vec::new();
        while self.take(&mut batch) {
            let mut rest = &*batch;
            while !rest.is_empty() {
                let (part, after) = rest.split_at(part(rest));
                if Self::write(&mut *target, part).is_err() {
                    self.queue.lock().lose(part);
                }
                rest = after;
            }
            let lost = mem::take(&mut self.queue.lock().lost);
            if lost > 0 {
                report(lost);
            }
        }
    }

    /// Waits for lines; false at the end.
    fn take(&self, batch: &mut Vec<u8>) -> bool {
        batch.clear();
        batch.shrink_to(MAX_KEPT);
        let mut queue = self.queue.lock();
        queue.is_writing = false;
        while queue.waiting.is_empty() {
            self.idle.notify_all();
            if queue.is_ended {
                return false;
            }
            self.work.wait(&mut queue);
        }
        queue.is_writing = true;
        mem::swap(&mut queue.waiting, batch);
        true
    }

    /// Writes to the target. If another program has set it to non-blocking, it may accept nothing for a while.
    fn write(target: &mut dyn Write, mut part: &[u8]) -> io::Result<()> {
        while !part.is_empty() {
            match target.write(part) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => part = &part[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(RETRY_PAUSE),
                Err(error) => return Err(error),
            }
        }
        target.flush()
    }
}

/// The number of bytes to write at once: one line, or as many as a pipe keeps together.
fn part(lines: &[u8]) -> usize {
    let together = &lines[..lines.len().min(MAX_WRITE)];
    let end = memchr::memrchr(b'\n', together).or_else(|| memchr::memchr(b'\n', lines));
    end.map_or(lines.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A reader that reads only while it is open.
    #[derive(Clone, Default)]
    struct Reader(Arc<(Mutex<ReaderState>, Condvar)>);

    #[derive(Default)]
    struct ReaderState {
        is_open: bool,
        text: Vec<u8>,
    }

    impl Reader {
        fn open(&self) {
            self.0.0.lock().is_open = true;
            self.0.1.notify_all();
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.0.lock().text.clone()).unwrap()
        }
    }

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut state = self.0.0.lock();
            self.0.1.wait_while(&mut state, |state| !state.is_open);
            state.text.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn lines_that_nobody_reads_are_dropped_and_counted_and_the_writer_goes_on() {
        static LOST: AtomicU64 = AtomicU64::new(0);
        let reader = Reader::default();
        let report = |count| {
            LOST.fetch_add(count, Ordering::SeqCst);
        };
        let mut writer = BackgroundWriter::start(Box::new(reader.clone()), report).unwrap();
        let line = format!("{}\n", "x".repeat(1023));
        let sent = 3 * MAX_WAITING / line.len();
        for _ in 0..sent {
            writer.write_all(line.as_bytes()).unwrap();
        }
        writer.finish(Duration::ZERO);
        reader.open();
        writer.finish(LONG);
        let written = reader.text().lines().filter(|read| read.len() == 1023).count();
        assert!(reader.text().len() <= 2 * MAX_WAITING + line.len(), "bounded by bytes");
        assert_eq!(written + usize::try_from(LOST.load(Ordering::SeqCst)).unwrap(), sent);
        assert!(written < sent);
        writer.write_all(b"more\n").unwrap();
        writer.finish(LONG);
        assert!(reader.text().ends_with("x\nmore\n"));
    }

    #[test]
    fn what_is_written_before_the_last_handle_is_gone_arrives() {
        let reader = Reader::default();
        let mut writer = BackgroundWriter::start(Box::new(reader.clone()), |_| {}).unwrap();
        writer.clone().write_all(b"one\n").unwrap();
        writer.write_all(b"two\n").unwrap();
        let shared = Arc::clone(&writer.0.0);
        drop(writer);
        reader.open();
        let is_busy = |queue: &mut Queue| queue.is_writing || !queue.waiting.is_empty();
        shared.idle.wait_while_for(&mut shared.queue.lock(), is_busy, LONG);
        assert_eq!(reader.text(), "one\ntwo\n");
    }

    #[test]
    fn a_write_holds_whole_lines() {
        let long = "x".repeat(MAX_WRITE);
        assert_eq!(part(b"one\ntwo\n"), 8);
        assert_eq!(part(format!("one\n{long}\n").as_bytes()), 4);
        assert_eq!(part(format!("{long}\ntwo\n").as_bytes()), MAX_WRITE + 1);
        assert_eq!(part(b"no end"), 6);
    }
}
