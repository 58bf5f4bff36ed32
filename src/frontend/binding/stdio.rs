//! Standard input and output of a process that one local client has started (all versions, transports, *stdio*). There
//! is one message per line, on any pair of byte streams, and nothing but messages is written.
//!
//! A line that is not a message is answered with an error, and reading continues.

mod client_lines;
mod upgrade;

use std::{sync::Arc, time::Duration};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use self::client_lines::client_lines;
pub use self::upgrade::UpgradeOffer;
use super::channel::{ChannelClient, ChannelOutput};
use crate::{
    frontend::state::{FrontendState, Sender},
    wire::lines,
};

/// Time that running calls get to finish after the input has ended. Clients wait two seconds for the process to exit
/// before they send a signal.
const LINGER: Duration = Duration::from_secs(1);

/// Serves the client until its input ends, it stops reading, or the gateway ends.
pub(crate) async fn serve(
    state: Arc<FrontendState>,
    sender: Sender,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
) {
    let token = state.tracker.token();
    let lines = client_lines(input, state.settings.limits.get().request_body);
    let (client, messages) = ChannelClient::new(state, sender, LINGER);
    Box::pin(client.run(lines, write(messages, output))).await;
    drop(token);
}

/// Writes the messages until they end or the output is closed.
async fn write(mut messages: ChannelOutput, mut output: impl AsyncWrite + Unpin) {
    while let Some(message) = messages.next().await {
        let line = lines::line(message.encode());
        if output.write_all(&line).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}
