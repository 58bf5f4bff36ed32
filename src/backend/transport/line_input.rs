//! The lines that a server writes, one message in each (all versions, transports: stdio). Knows nothing of where they come
//! from.

use futures_util::StreamExt as _;
use tokio::io::AsyncRead;
use tokio_util::codec::FramedRead;

use super::{
    interface::{Incoming, ServerInput},
    output_tail::OutputTail,
};
use crate::{
    model::{BackendId, status::OutputStream},
    support::Account,
    wire::lines::Lines,
};

/// The messages in `input`, then the reason of its end. Other lines are logged, kept in `output`, and passed over.
pub(super) fn server_input(
    input: impl AsyncRead + Send + Unpin + 'static,
    (backend, output): (BackendId, OutputTail),
    account: Account,
    ended: impl Future<Output = String> + Send + 'static,
) -> Incoming {
    let mut lines = FramedRead::new(input, Lines::charged_to(account));
    let arrivals = async_stream::stream! {
        let mut is_first = true;
        while let Some(line) = lines.next().await {
            match line {
                Ok(line) if matches!(line.first(), Some(b'{' | b'[')) => yield ServerInput::Text(line),
                Ok(line) => {
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
