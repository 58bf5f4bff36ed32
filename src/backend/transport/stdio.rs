//! A server in a child process, over its standard input and output (all versions, transports: stdio): how messages are
//! written and read.

mod cgroup;
mod container;
mod containment;
pub(crate) mod environment;
mod privileged;
mod process;
mod program_file;
mod report;
pub(crate) mod running_programs;
pub(crate) mod spawner;

use std::{
    io::{self, Write as _},
    os::unix::net::UnixStream,
    sync::Arc,
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use futures_util::{FutureExt as _, future::BoxFuture};
use parking_lot::Mutex;
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

use self::process::{ChildStreams, Process};
pub(crate) use self::report::contained;
use super::{
    connector::Connector,
    interface::{Exchange, Incoming, RequestTerms, ServerLocation, Transport, TransportError, UnansweredCalls},
    line_input::{LineSource, LineWriter, server_input},
    outgoing::{self, NotQueued, OutgoingReceiver, OutgoingSender, SentMessage},
    output_tail::OutputTail,
};
use crate::{
    backend::error::StartError,
    mcp::Message,
    model::{
        StdioSpec,
        status::{OutputLine, OutputStream},
    },
    support::{Account, memory::Charge},
    wire::lines::line,
};

/// Maximum wait for the exit status of a child that closed its standard output.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Connection to one child process.
pub(crate) struct StdioTransport {
    input: Input,
    output: OutputTail,
    unanswered: UnansweredCalls,
    stop: CancellationToken,
    exit: watch::Receiver<Option<String>>,
}

/// Standard input of a child. The sender writes a line itself if the child takes it at once; otherwise [`Writer`]
/// writes it from the queue. Cheap to clone.
#[derive(Clone)]
struct Input {
    stream: Arc<Mutex<InputStream>>,
    queue: OutgoingSender,
    /// Account of the server.
    account: Account,
}

/// Stream to the child's standard input.
struct InputStream {
    /// `None` once the child no longer reads.
    sender: Option<Arc<UnixStream>>,
    /// Number of lines that are queued or being written.
    waiting: usize,
}

/// Outcome of sending a line.
enum SentLine {
    /// The child has it.
    Written,
    /// It waits in the queue.
    Queued(SentMessage),
    /// The child no longer reads, and got nothing of the line.
    Unread,
}

/// Writes queued lines. Dropping it closes standard input.
struct Writer {
    stream: Arc<Mutex<InputStream>>,
    sender: Arc<UnixStream>,
    queued: OutgoingReceiver,
}

/// Starts the child process, and connects to it.
pub(crate) fn connect(with: &Connector<'_>, spec: &StdioSpec) -> Result<(Arc<dyn Transport>, Incoming), StartError> {
    let Connector { backend, output, environment, spawner, tasks, ref account, .. } = *with;
    let environment = environment::of_child(environment, &spec.env);
    let (process, streams) = Process::start(with.spec, spec, environment, spawner, output)?;
    let ChildStreams { input: stdin, output: stdout } = streams;
    let (input, pending) = Input::new(stdin, account.clone());
    let (exited, exit) = watch::channel(None);
    let (stop, unanswered) = (tasks.end().child_token(), UnansweredCalls::default());
    let (stdout, shutter) = stdout.into_split();
    let process = process.listed(&stop);
    tasks.spawn(process.run(pending.run(), shutter, stop.clone(), unanswered.clone(), exited));
    let (backend, printed, account) = (backend.clone(), output.clone(), account.clone());
    let source = LineSource { writer: LineWriter::Process, backend, output: printed, account };
    let incoming = server_input(stdout, source, ended(exit.clone()));
    Ok((Arc::new(StdioTransport { input, output: output.clone(), unanswered, stop, exit }), incoming))
}

/// Why a child's standard output ended.
async fn ended(mut exit: watch::Receiver<Option<String>>) -> String {
    let told = timeout(EXIT_TIMEOUT, exit.wait_for(Option::is_some)).await;
    let status = told.ok().and_then(|status| status.ok().and_then(|status| status.clone()));
    status.unwrap_or_else(|| "the process closed its standard output".to_owned())
}

/// The error for a line that the child did not read: how the child ended, if it did.
async fn unread(mut exit: watch::Receiver<Option<String>>) -> Result<(), TransportError> {
    let told = timeout(EXIT_TIMEOUT, exit.wait_for(Option::is_some)).await;
    let status = told.ok().and_then(|status| status.ok().and_then(|status| status.clone()));
    Err(status.map_or_else(gone, TransportError::Gone))
}

// === impl StdioTransport ===

impl Transport for StdioTransport {
    fn request(&self, request: Message, terms: RequestTerms) -> Exchange {
        let queued = match self.input.send(line(request.encode()), &terms.account) {
            Ok(SentLine::Written) => return Exchange::Channel,
            Ok(SentLine::Unread) => return Exchange::after(unread(self.exit.clone())),
            Ok(SentLine::Queued(message)) => Ok(message),
            Err(not_queued) => Err(not_queued),
        };
        let input = self.input.clone();
        outgoing::exchange(queued, &terms.account, move |line, charge| match input.send_charged(line, charge)? {
            SentLine::Written => Ok(None),
            SentLine::Queued(message) => Ok(Some(message)),
            SentLine::Unread => Err(gone()),
        })
    }

    fn send(&self, message: Message) -> BoxFuture<'static, Result<(), TransportError>> {
        let (input, line) = (self.input.clone(), line(message.encode()));
        async move {
            let sent = match input.send(line, &input.account) {
                Ok(sent) => sent,
                Err(not_queued) => {
                    let (line, charge) = not_queued.soon(input.account.clone()).await?;
                    input.send_charged(line, charge)?
                }
            };
            match sent {
                SentLine::Written => {}
                SentLine::Queued(message) => message.detach(),
                SentLine::Unread => return Err(gone()),
            }
            Ok(())
        }
        .boxed()
    }

    fn location(&self) -> ServerLocation {
        ServerLocation::ThisMachine
    }

    fn unanswered(&self) -> UnansweredCalls {
        self.unanswered.clone()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.stop.cancel();
        let mut exit = self.exit.clone();
        async move {
            let _ = exit.wait_for(Option::is_some).await;
        }
        .boxed()
    }

    fn passed_over(&self, text: &Bytes) {
        self.output.push(OutputStream::Stdout, text);
    }

    fn output(&self) -> Vec<OutputLine> {
        self.output.lines()
    }

    fn printed(&self) -> u64 {
        self.output.count()
    }
}

// === impl Input ===

impl Input {
    fn new(sender: UnixStream, account: Account) -> (Self, Writer) {
        let sender = Arc::new(sender);
        let stream = Arc::new(Mutex::new(InputStream { sender: Some(Arc::clone(&sender)), waiting: 0 }));
        let (queue, queued) = OutgoingSender::new();
        (Self { stream: Arc::clone(&stream), queue, account }, Writer { stream, sender, queued })
    }

    /// Writes a line, or queues what the child does not take at once.
    ///
    /// # Errors
    ///
    /// If the child no longer reads, or there is no room or no memory for the line.
    fn send(&self, line: Bytes, account: &Account) -> Result<SentLine, NotQueued> {
        self.write_or(line, account, |queue, line| queue.send(line, account))
    }

    /// The same for a line that is already charged.
    ///
    /// # Errors
    ///
    /// If the child no longer reads, or there is no room for the line.
    fn send_charged(&self, line: Bytes, charge: Charge) -> Result<SentLine, TransportError> {
        let account = charge.account().clone();
        self.write_or(line, &account, |queue, line| queue.send_charged(line, charge))
    }

    /// Writes a line, or queues it with `queue` if the child takes none of it at once.
    fn write_or<E: From<TransportError>>(
        &self,
        mut line: Bytes,
        account: &Account,
        queue: impl FnOnce(&OutgoingSender, Bytes) -> Result<SentMessage, E>,
    ) -> Result<SentLine, E> {
        let mut is_begun = false;
        let mut stream = self.stream.lock();
        let Some(sender) = &stream.sender else { return Err(gone().into()) };
        // a line must not overtake the queue
        if stream.waiting == 0 {
            match (&**sender).write(&line) {
                Ok(length) if length == line.len() => return Ok(SentLine::Written),
                Ok(length) => {
                    is_begun = length > 0;
                    line.advance(length);
                }
                Err(error) if is_passing(&error) => {}
                Err(_) => {
                    stream.sender = None;
                    return Ok(SentLine::Unread);
                }
            }
        }
        if is_begun {
            self.queue.send_rest(line, account);
            stream.waiting += 1;
            return Ok(SentLine::Written);
        }
        let message = queue(&self.queue, line)?;
        stream.waiting += 1;
        Ok(SentLine::Queued(message))
    }
}

/// True if the line may be written later.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn gone() -> TransportError {
    TransportError::Gone("the process does not read its standard input any more".to_owned())
}

// === impl Writer ===

impl Writer {
    /// Waits until the child takes more. Registered only then, because a socket wakes its task whenever the child has
    /// read.
    async fn writable(&self) -> io::Result<()> {
        tokio::net::UnixStream::from_std(self.sender.try_clone()?)?.writable().await
    }

    /// Writes until the child stops reading, or the queue ends.
    async fn run(mut self) {
        while let Some(place) = self.queued.next_place().await {
            let mut message = place.take();
            while let Some(line) = message.as_mut().map(|message| &mut message.text).filter(|line| !line.is_empty()) {
                match (&*self.sender).write(line) {
                    Ok(length) => line.advance(length),
                    Err(error) if is_passing(&error) => {
                        if self.writable().await.is_err() {
                            return;
                        }
                    }
                    Err(_) => return,
                }
            }
            self.stream.lock().waiting -= 1;
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stream.lock().sender = None;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// Standard input of a child, and the child's end of it.
    fn pair() -> (UnixStream, tokio::net::UnixStream) {
        let (input, child) = UnixStream::pair().unwrap();
        for end in [&input, &child] {
            end.set_nonblocking(true).unwrap();
        }
        (input, tokio::net::UnixStream::from_std(child).unwrap())
    }

    /// More bytes than a socket holds.
    const LONG: usize = 400_000;

    #[tokio::test]
    async fn lines_reach_a_slow_reader_whole_and_in_order() {
        let (sender, mut receiver) = pair();
        let (input, writer) = Input::new(sender, Account::unbounded());
        let lines: Vec<Bytes> = (0..100_u8).map(|number| vec![number; LONG].into()).collect();
        let expected = lines.concat();
        let sending = async move {
            for line in lines {
                if let SentLine::Queued(message) = input.send(line, &input.account).unwrap() {
                    message.detach();
                }
            }
        };
        let mut read = Vec::new();
        let (.., length) = tokio::join!(sending, writer.run(), receiver.read_to_end(&mut read));
        assert_eq!(length.unwrap(), expected.len());
        assert!(read == expected);
    }

    #[tokio::test]
    async fn a_line_that_is_given_up_is_not_written() {
        let (sender, mut receiver) = pair();
        let (input, writer) = Input::new(sender, Account::unbounded());
        let begun = input.send(Bytes::from(vec![b'a'; LONG]), &input.account).unwrap();
        assert!(matches!(begun, SentLine::Written), "what has begun is written to its end");
        let waiting = [(); 2].map(|()| input.send(Bytes::from_static(b"b"), &input.account).unwrap());
        drop(waiting);
        drop(input);
        let mut read = Vec::new();
        let ((), length) = tokio::join!(writer.run(), receiver.read_to_end(&mut read));
        length.unwrap();
        assert_eq!(read, vec![b'a'; LONG]);
    }

    #[tokio::test]
    async fn nothing_is_sent_to_a_child_that_reads_no_more() {
        let (sender, receiver) = pair();
        let (input, _writer) = Input::new(sender, Account::unbounded());
        drop(receiver);
        let send = || input.send(Bytes::from_static(b"a"), &input.account);
        assert!(matches!(send(), Ok(SentLine::Unread)), "the end of the child is told where it is read");
        assert!(matches!(send(), Err(NotQueued::Failed(TransportError::Gone(_)))));
    }
}
