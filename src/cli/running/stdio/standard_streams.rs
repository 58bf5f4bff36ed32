//! Standard input and output of this process as async byte streams. Each has its own thread, which the process does not
//! wait for when it ends: a read of standard input cannot be cancelled.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::AsFd,
    thread,
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    runtime::Handle,
    sync::oneshot,
};

/// Size of the buffer between a thread and the runtime, in bytes.
const CAPACITY: usize = 64 * 1024;
/// Time between two attempts, if the parent process has made its streams non-blocking.
const RETRY: Duration = Duration::from_millis(2);

pub(super) struct StandardOutput {
    /// Bytes for standard output. The pipe breaks when standard output is closed.
    pub(super) pipe: DuplexStream,
    /// Completes when the pipe was closed and everything is written, or when standard output is closed.
    pub(super) ended: oneshot::Receiver<()>,
}

pub(super) fn input() -> io::Result<DuplexStream> {
    let mut source = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (input, mut pipe) = duplex(CAPACITY);
    let runtime = Handle::current();
    thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut chunk = vec![0; CAPACITY];
        while let Ok(length @ 1..) = patient(|| source.read(&mut chunk)) {
            if runtime.block_on(pipe.write_all(&chunk[..length])).is_err() {
                return;
            }
        }
    })?;
    Ok(input)
}

pub(super) fn output() -> io::Result<StandardOutput> {
    let mut target = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (mut output, pipe) = duplex(CAPACITY);
    let (done, ended) = oneshot::channel();
    let runtime = Handle::current();
    thread::Builder::new().name("stdout".to_owned()).spawn(move || {
        let mut chunk = vec![0; CAPACITY];
        while let Ok(length @ 1..) = runtime.block_on(output.read(&mut chunk)) {
            if write_all(&mut target, &chunk[..length]).is_err() {
                break;
            }
        }
        let _ = done.send(());
    })?;
    Ok(StandardOutput { pipe, ended })
}

fn write_all(target: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match patient(|| target.write(bytes))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            length => bytes = &bytes[length..],
        }
    }
    Ok(())
}

/// Repeats an operation for as long as it is interrupted or would block.
fn patient(mut operation: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(RETRY),
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes one byte at a time, and blocks before each.
    struct Slow(Vec<u8>, bool);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.0.push(bytes[0]);
            Ok(1)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn everything_is_written_to_a_stream_that_blocks() {
        let mut slow = Slow(Vec::new(), false);
        write_all(&mut slow, b"message\n").unwrap();
        assert_eq!(slow.0, b"message\n");
    }
}
