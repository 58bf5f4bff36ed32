//! The minimum of HTTP/1.1 that a client and a server in the counted thread need, so that they add little to a count.

use std::sync::LazyLock;

use anyhow::{Context as _, Result};
use memchr::memmem::{self, Finder};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::peers::{Era, reply};

/// The end of a head.
static END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\r\n\r\n"));
static LENGTH: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\r\ncontent-length: "));

/// One message, valid until the buffer is used for the next.
pub(super) struct Message<'a> {
    pub(super) head: &'a [u8],
    pub(super) body: &'a [u8],
}

/// Reads one message with a given length; `None` at the end of the stream.
pub(super) async fn read<'a>(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &'a mut Vec<u8>,
) -> Result<Option<Message<'a>>> {
    buffer.clear();
    loop {
        if let Some(end) = END.find(buffer) {
            let head = end + 4;
            let whole = head + length(&buffer[..head])?;
            if buffer.len() >= whole {
                let (head, body) = buffer.split_at(head);
                return Ok(Some(Message { head, body }));
            }
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// Value of a header field; the name is in lower case.
pub(super) fn field<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let at = memmem::find(head, format!("\r\n{name}: ").as_bytes())? + name.len() + 4;
    let value = &head[at..];
    std::str::from_utf8(&value[..memchr::memchr(b'\r', value)?]).ok()
}

fn length(head: &[u8]) -> Result<usize> {
    let Some(at) = LENGTH.find(head) else { return Ok(0) };
    let mut digits = head[at + LENGTH.needle().len()..].iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.try_fold(0_usize, |sum, digit| sum.checked_mul(10)?.checked_add(usize::from(digit - b'0')));
    length.context("a message is too long")
}

/// Serves Streamable HTTP on `listener` until it is dropped.
pub(super) async fn serve(listener: TcpListener, era: Era) -> Result<()> {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        connections.spawn(async move {
            // the gateway notices the end of the connection
            let _ = answer(stream, era).await;
        });
    }
}

async fn answer(mut stream: TcpStream, era: Era) -> Result<()> {
    let mut buffer = Vec::with_capacity(16 * 1024);
    while let Some(request) = read(&mut stream, &mut buffer).await? {
        let session = if era == Era::Legacy { "mcp-session-id: bench\r\n" } else { "" };
        let response = match reply(era, request.body) {
            _ if !request.head.starts_with(b"POST") => {
                "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n".to_owned()
            }
            None => "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
            Some(body) => format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{session}content-length: {}\r\n\r\n{body}",
                body.len()
            ),
        };
        stream.write_all(response.as_bytes()).await?;
    }
    Ok(())
}
