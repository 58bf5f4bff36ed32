//! HTTP/1.1 by hand, for a server that may break it.

use std::{io, pin::Pin, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpStream, tcp::WriteHalf},
};

use super::{Answer, Inner, Seen};

/// Pause between two dripped bytes.
const DRIP: Duration = Duration::from_millis(2);
/// Pause before a reset, so that earlier bytes are read.
const BEFORE_RESET: Duration = Duration::from_millis(50);
/// Maximum number of header fields in a request.
const FIELDS: usize = 64;

pub(crate) type Response = http::Response<Body>;

/// The body of a response.
pub(crate) enum Body {
    Whole(Bytes),
    /// Sent in chunks; an error cuts the connection.
    Chunks(Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>),
}

/// A step of an answer written byte by byte. The next request is read after the last step.
pub(crate) enum Step {
    Write(Vec<u8>),
    /// Writes one byte after another, with a pause between them.
    Drip(Vec<u8>),
    /// Ends the connection cleanly.
    Close,
    /// Ends the connection with a reset.
    Reset,
    /// Leaves the connection open without sending more.
    Silence,
}

/// State of a connection after an answer.
enum Next {
    GoesOn,
    Ends,
}

// === impl Body ===

impl Body {
    pub(crate) fn empty() -> Self {
        Self::Whole(Bytes::new())
    }

    pub(crate) fn from_stream<B: Into<Bytes>>(stream: impl Stream<Item = io::Result<B>> + Send + 'static) -> Self {
        Self::Chunks(Box::pin(stream.map(|chunk| chunk.map(Into::into))))
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::Whole(text.into())
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::Whole(text.into())
    }
}

/// Serves a client until either side ends the connection.
pub(super) async fn serve(mut stream: TcpStream, inner: &Inner) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // borrowed halves: owned ones would end the connection cleanly before a reset could
    let (input, mut output) = stream.split();
    let mut input = BufReader::new(input);
    while let Some(seen) = request(&mut input).await? {
        let answered = async {
            match inner.answer(seen).await {
                Answer::Response(response) => respond(&mut output, response).await,
                Answer::Raw(steps) => act(&mut output, steps).await,
            }
        };
        let next = tokio::select! {
            biased;
            next = answered => next?,
            () = gone(&mut input) => Next::Ends,
        };
        match next {
            Next::GoesOn => {}
            Next::Ends => break,
        }
    }
    Ok(())
}

/// The next request; `None` if there is none.
async fn request(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Seen>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if input.read_until(b'\n', &mut head).await? == 0 {
            return Ok(None);
        }
    }
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    parsed.parse(&head).unwrap();
    let verb: Method = parsed.method.unwrap().parse().unwrap();
    let fields = parsed.headers.iter().map(|field| {
        let name: HeaderName = field.name.parse().unwrap();
        (name, HeaderValue::from_bytes(field.value).unwrap())
    });
    let headers: HeaderMap = fields.collect();
    assert!(!headers.contains_key(header::TRANSFER_ENCODING), "the body of a request has a length");
    let length = headers.get(header::CONTENT_LENGTH).map_or(0, |length| length.to_str().unwrap().parse().unwrap());
    let mut text = vec![0; length];
    input.read_exact(&mut text).await?;
    let body = serde_json::from_slice(&text).unwrap_or_default();
    Ok(Some(Seen { verb, headers, body, text: text.into() }))
}

/// Waits until the client has ended the connection.
async fn gone(input: &mut (impl AsyncBufRead + Unpin)) {
    if input.fill_buf().await.is_ok_and(|bytes| !bytes.is_empty()) {
        // the next request
        std::future::pending::<()>().await;
    }
}

async fn respond(output: &mut WriteHalf<'_>, response: Response) -> io::Result<Next> {
    let (parts, body) = response.into_parts();
    let mut bytes = format!("HTTP/1.1 {}\r\n", parts.status).into_bytes();
    for (name, value) in &parts.headers {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    let mut chunks = match body {
        Body::Whole(whole) => {
            if parts.status != StatusCode::NO_CONTENT {
                bytes.extend(format!("content-length: {}\r\n", whole.len()).into_bytes());
            }
            bytes.extend([b"\r\n", &*whole].concat());
            output.write_all(&bytes).await?;
            return Ok(Next::GoesOn);
        }
        Body::Chunks(chunks) => chunks,
    };
    bytes.extend(b"transfer-encoding: chunked\r\n\r\n");
    output.write_all(&bytes).await?;
    while let Some(chunk) = chunks.next().await {
        let Ok(chunk) = chunk else { return Ok(Next::Ends) };
        // an empty chunk would be the last
        if !chunk.is_empty() {
            let length = format!("{:x}\r\n", chunk.len());
            output.write_all(&[length.as_bytes(), &chunk, b"\r\n"].concat()).await?;
        }
    }
    output.write_all(b"0\r\n\r\n").await?;
    Ok(Next::GoesOn)
}

async fn act(output: &mut WriteHalf<'_>, steps: Vec<Step>) -> io::Result<Next> {
    for step in steps {
        match step {
            Step::Write(bytes) => output.write_all(&bytes).await?,
            Step::Drip(bytes) => {
                for byte in bytes {
                    output.write_all(&[byte]).await?;
                    tokio::time::sleep(DRIP).await;
                }
            }
            Step::Close => {
                output.shutdown().await?;
                return Ok(Next::Ends);
            }
            Step::Reset => {
                tokio::time::sleep(BEFORE_RESET).await;
                output.as_ref().set_zero_linger()?;
                return Ok(Next::Ends);
            }
            Step::Silence => std::future::pending().await,
        }
    }
    Ok(Next::GoesOn)
}
