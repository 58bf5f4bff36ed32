//! Lines that a server writes, each with one message (all versions, transports: stdio).

use futures_util::StreamExt as _;
use tokio::io::AsyncRead;
use tokio_util::codec::FramedRead;

use super::{
    interface::{Incoming, ServerInput},
    output_tail::OutputTail,
    sloppy,
};
use crate::{
    mcp::Message,
    model::{BackendId, status::OutputStream},
    support::Account,
    wire::lines::Lines,
};

/// The server that writes the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineWriter {
    /// A child process, which may print a banner without a line end before its first message.
    Process,
    /// A server that the gateway connected to.
    Peer,
}

/// The server that writes the lines.
pub(super) struct LineSource {
    pub(super) writer: LineWriter,
    pub(super) backend: BackendId,
    /// Keeps the lines that are no messages.
    pub(super) output: OutputTail,
    /// Pays for the line that is being read.
    pub(super) account: Account,
}

/// Messages in `input`, then the reason of its end. Other lines are logged, kept as output, and skipped.
pub(super) fn server_input(
    input: impl AsyncRead + Send + Unpin + 'static,
    source: LineSource,
    ended: impl Future<Output = String> + Send + 'static,
) -> Incoming {
    let LineSource { writer, backend, output, account } = source;
    let mut lines = FramedRead::new(input, Lines::charged_to(account));
    let arrivals = async_stream::stream! {
        let mut is_first = true;
        // after its first message, a process prints no banner
        let mut has_spoken = writer == LineWriter::Peer;
        while let Some(line) = lines.next().await {
            match line {
                Ok(line) if matches!(line.first(), Some(b'{' | b'[')) => {
                    has_spoken = has_spoken || Message::parse(&line).is_ok();
                    yield ServerInput::Text(line);
                }
                Ok(line) => {
                    let banner = |line| if has_spoken { None } else { sloppy::after_banner(line) };
                    if let Some(message) = sloppy::without_prefix(&line).or_else(|| banner(&line)) {
                        has_spoken = has_spoken || Message::parse(&message).is_ok();
                        yield ServerInput::Text(message);
                        continue;
                    }
                    if std::mem::take(&mut is_first) {
                        tracing::warn!(server = %backend, "the server writes something else than messages among them");
                    }
                    let text = output.push(OutputStream::Stdout, &line);
                    tracing::debug!(server = %backend, text, "passed over");
                }
                Err(error) => yield ServerInput::Lost(format!("what the server writes cannot be read: {error}")),
            }
        }
        yield ServerInput::Lost(ended.await);
    };
    arrivals.boxed()
}
