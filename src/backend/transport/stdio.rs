//! A server that is a child process and speaks on its standard input and output (all versions, transports: stdio): the way
//! of a message to it and from it. Knows nothing of how a process is started and ended.

pub(crate) mod environment;
mod process;

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    os::unix::net::UnixStream,
    sync::Arc,
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use parking_lot::Mutex;
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        watch,
    },
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use self::process::{ChildStreams, Process};
use super::{
    interface::{Exchange, Incoming, ServerLocation, Transport, TransportError, UnansweredCalls},
    line_input::server_input,
    output_tail::OutputTail,
};
use crate::{
    backend::{error::StartError, task_group::TaskGroup},
    mcp::{Message, mirrored_params::Mirror},
    model::{
        BackendId, StdioSpec,
        status::{OutputLine, OutputStream},
    },
    wire::lines::line,
};

/// Messages that wait for a child that does not read. Callers wait beyond that, each for itself.
const QUEUE: usize = 64;
/// The wait for the status of a child that closed its standard output.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The connection to one child process.
pub(crate) struct StdioTransport {
    input: Input,
    output: OutputTail,
    unanswered: UnansweredCalls,
    stop: CancellationToken,
    exit: watch::Receiver<Option<String>>,
}

/// Standard input of a child. A line is written at once by its sender if the child takes it; otherwise it is queued for
/// [`Writer`]. Cheap to clone.
#[derive(Clone)]
struct Input {
    stream: Arc<Mutex<InputStream>>,
    queue: mpsc::Sender<Bytes>,
}

/// The stream to a child.
struct InputStream {
    /// `None` if nothing is written any more.
    sender: Option<Arc<UnixStream>>,
    /// Lines that are queued or wait for room in the queue.
    waiting: usize,
}

/// A line that waits for room in the queue. Dropping it before that gives it up.
struct WaitingLine {
    input: Input,
    line: Option<Bytes>,
}

/// Writes what is queued. Dropping it closes standard input.
struct Writer {
    stream: Arc<Mutex<InputStream>>,
    sender: Arc<UnixStream>,
    queued: mpsc::Receiver<Bytes>,
}

/// Starts the child process.
pub(crate) fn connect(
    (backend, output): (&BackendId, &OutputTail),
    spec: &StdioSpec,
    environment: &BTreeMap<String, String>,
    tasks: &TaskGroup,
) -> Result<(Arc<dyn Transport>, Incoming), StartError> {
    let environment = environment::of_child(environment, &spec.env);
    let (process, streams) = Process::start((backend, output), spec, &environment)?;
    let ChildStreams { input: stdin, output: stdout } = streams;
    let (input, writer) = Input::new(stdin);
    let (exited, exit) = watch::channel(None);
    let (stop, unanswered) = (tasks.end().child_token(), UnansweredCalls::default());
    tasks.spawn(process.run(writer.run(), (stop.clone(), unanswered.clone()), exited));
    let incoming = server_input(stdout, (backend.clone(), output.clone()), ended(exit.clone()));
    Ok((Arc::new(StdioTransport { input, output: output.clone(), unanswered, stop, exit }), incoming))
}

/// The reason for which a child's standard output ended.
async fn ended(mut exit: watch::Receiver<Option<String>>) -> String {
    let told = timeout(EXIT_TIMEOUT, exit.wait_for(Option::is_some)).await;
    let status = told.ok().and_then(|status| status.ok().and_then(|status| status.clone()));
    status.unwrap_or_else(|| "the process closed its standard output".to_owned())
}

// === impl StdioTransport ===

impl Transport for StdioTransport {
    fn request(&self, request: Message, _: Option<Arc<Mirror>>) -> Exchange {
        match self.input.send(line(request.encode())) {
            Ok(None) => Exchange::Channel,
            Ok(Some(waiting)) => Exchange::after(waiting.queued()),
            Err(error) => Exchange::Own(stream::iter([Err(error)]).boxed()),
        }
    }

    fn send(&self, message: Message) -> BoxFuture<'static, Result<(), TransportError>> {
        let (input, line) = (self.input.clone(), line(message.encode()));
        async move {
            match input.send(line)? {
                None => Ok(()),
                Some(waiting) => waiting.queued().await,
            }
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
}

// === impl Input ===

impl Input {
    fn new(sender: UnixStream) -> (Self, Writer) {
        let sender = Arc::new(sender);
        let stream = Arc::new(Mutex::new(InputStream { sender: Some(Arc::clone(&sender)), waiting: 0 }));
        let (queue, queued) = mpsc::channel(QUEUE);
        (Self { stream: Arc::clone(&stream), queue }, Writer { stream, sender, queued })
    }

    /// Writes a line, or queues what the child does not take at once. Returns what there is no room for in the queue.
    ///
    /// # Errors
    ///
    /// If the child is known to read no more.
    fn send(&self, mut line: Bytes) -> Result<Option<WaitingLine>, TransportError> {
        let mut stream = self.stream.lock();
        let Some(sender) = &stream.sender else { return Err(gone()) };
        // nobody overtakes what waits
        if stream.waiting == 0 {
            match (&**sender).write(&line) {
                Ok(length) if length == line.len() => return Ok(None),
                Ok(length) => line.advance(length),
                Err(error) if is_passing(&error) => {}
                // its end is told where it is read, and with it why what was sent has no answer
                Err(_) => {
                    stream.sender = None;
                    return Ok(None);
                }
            }
        }
        let waiting = match self.queue.try_send(line) {
            Ok(()) => None,
            Err(TrySendError::Full(line)) => Some(WaitingLine { input: self.clone(), line: Some(line) }),
            Err(TrySendError::Closed(_)) => return Err(gone()),
        };
        stream.waiting += 1;
        Ok(waiting)
    }
}

/// True if the line may be written later.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn gone() -> TransportError {
    TransportError::Gone("the process does not read its standard input any more".to_owned())
}

// === impl WaitingLine ===

impl WaitingLine {
    async fn queued(mut self) -> Result<(), TransportError> {
        let room = self.input.queue.reserve().await.map_err(|_| gone())?;
        if let Some(line) = self.line.take() {
            room.send(line);
        }
        Ok(())
    }
}

impl Drop for WaitingLine {
    fn drop(&mut self) {
        if self.line.is_some() {
            self.input.stream.lock().waiting -= 1;
        }
    }
}

// === impl Writer ===

impl Writer {
    /// Waits until the child takes more. Asked for only then, since a socket says so each time the child has read.
    async fn writable(&self) -> io::Result<()> {
        tokio::net::UnixStream::from_std(self.sender.try_clone()?)?.writable().await
    }

    /// Writes until the child reads no more or there is nothing more to come.
    async fn run(mut self) {
        while let Some(mut line) = self.queued.recv().await {
            while !line.is_empty() {
                match (&*self.sender).write(&line) {
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

    /// A child's input, and its own end.
    fn pair() -> (UnixStream, tokio::net::UnixStream) {
        let (input, child) = UnixStream::pair().unwrap();
        for end in [&input, &child] {
            end.set_nonblocking(true).unwrap();
        }
        (input, tokio::net::UnixStream::from_std(child).unwrap())
    }

    /// More than a socket holds.
    const LONG: usize = 400_000;

    #[tokio::test]
    async fn lines_reach_a_slow_reader_whole_and_in_order() {
        let (sender, mut receiver) = pair();
        let (input, writer) = Input::new(sender);
        let lines: Vec<Bytes> = (0..100_u8).map(|number| vec![number; LONG].into()).collect();
        let expected = lines.concat();
        let sending = async move {
            for line in lines {
                if let Some(waiting) = input.send(line).unwrap() {
                    waiting.queued().await.unwrap();
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
        let (input, writer) = Input::new(sender);
        for _ in 0..QUEUE {
            assert!(input.send(Bytes::from(vec![b'a'; LONG])).unwrap().is_none());
        }
        let waiting = [(); 2].map(|()| input.send(Bytes::from_static(b"b")).unwrap().unwrap());
        drop(waiting);
        drop(input);
        let mut read = Vec::new();
        let ((), length) = tokio::join!(writer.run(), receiver.read_to_end(&mut read));
        length.unwrap();
        assert!(!read.contains(&b'b'));
    }

    #[tokio::test]
    async fn nothing_is_sent_to_a_child_that_reads_no_more() {
        let (sender, receiver) = pair();
        let (input, _writer) = Input::new(sender);
        drop(receiver);
        let send = || input.send(Bytes::from_static(b"a"));
        assert!(matches!(send(), Ok(None)), "the end of the child is told where it is read");
        assert!(matches!(send(), Err(TransportError::Gone(_))));
    }
}
