//! Compressed bodies. The gateway asks for none (`Accept-Encoding: identity`), but some servers and proxies compress
//! anyway. Bodies are not bounded here: the reader counts its bytes.

use std::{
    convert::Infallible,
    error::Error,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{HeaderValue, Request, Response, header};
use hyper::body::{Body, Frame, SizeHint};
use tower::{Service as _, service_fn};
use tower_http::decompression::{Decompression, DecompressionBody};

/// `Accept-Encoding` of all requests.
pub const ACCEPTED: HeaderValue = HeaderValue::from_static("identity");

/// The codings that are read anyway.
const READ: [&str; 4] = ["gzip", "br", "zstd", "deflate"];

/// A body, decompressed if needed.
pub enum ReadableBody<B: Body> {
    /// It is not compressed.
    Plain(B),
    Compressed(Box<DecompressionBody<B>>),
}

/// A body that ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReadableBodyError<E> {
    #[error(transparent)]
    Connection(E),
    /// The connection broke, or the content is not in the named coding.
    #[error("its compressed content cannot be read: {0}")]
    Content(Box<dyn Error + Send + Sync>),
}

/// The body of a response has an unsupported coding.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the answer comes with `Content-Encoding: {0}`, which was not asked for; gzip, br, zstd and deflate are read: turn compression \
     off at the server or at the proxy in front of it"
)]
pub struct UnknownCoding(String);

/// The response with a readable body, and without the headers of its coding.
///
/// # Errors
///
/// If its coding is unknown, or there are several.
pub fn readable<B>(mut response: Response<B>) -> Result<Response<ReadableBody<B>>, UnknownCoding>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    let Some(coding) = response.headers().get(header::CONTENT_ENCODING) else {
        return Ok(response.map(ReadableBody::Plain));
    };
    let coding = coding.as_bytes().trim_ascii().to_ascii_lowercase();
    let coding = coding.strip_prefix(b"x-").unwrap_or(&coding);
    let is_single = response.headers().get_all(header::CONTENT_ENCODING).iter().count() == 1;
    if is_single && (matches!(coding, b"" | b"identity") || response.body().is_end_stream()) {
        response.headers_mut().remove(header::CONTENT_ENCODING);
        return Ok(response.map(ReadableBody::Plain));
    }
    let Some(known) = READ.into_iter().find(|known| is_single && known.as_bytes() == coding) else {
        let all: Vec<_> =
            response.headers().get_all(header::CONTENT_ENCODING).iter().map(HeaderValue::as_bytes).collect();
        return Err(UnknownCoding(String::from_utf8_lossy(&all.join(&b", "[..])).into_owned()));
    };
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(known));
    Ok(decompressed(response).map(|body| ReadableBody::Compressed(Box::new(body))))
}

/// The library decompresses the responses of a service: this one has a single, immediate response.
fn decompressed<B>(response: Response<B>) -> Response<DecompressionBody<B>>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    let mut response = Some(response);
    let once = service_fn(move |_: Request<()>| {
        let response = response.take().expect("it is called once");
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let answer = Decompression::new(once).call(Request::new(()));
    match answer.now_or_never().expect("the answer of the service is ready") {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

// === impl ReadableBody ===

impl<B> Body for ReadableBody<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    type Data = Bytes;
    type Error = ReadableBodyError<B::Error>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Self::Plain(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|polled| polled.map(|frame| frame.map_err(ReadableBodyError::Connection))),
            Self::Compressed(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|polled| polled.map(|frame| frame.map_err(ReadableBodyError::Content))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(body) => body.is_end_stream(),
            Self::Compressed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(body) => body.size_hint(),
            Self::Compressed(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, Full};

    use super::*;

    fn response(codings: &[&str], body: &'static [u8]) -> Response<Full<Bytes>> {
        let builder =
            codings.iter().fold(Response::builder(), |builder, coding| builder.header("content-encoding", *coding));
        builder.header("content-length", body.len()).body(Full::new(Bytes::from_static(body))).unwrap()
    }

    /// `printf hello | gzip -n | xxd -i`, and the same for the others.
    const HELLO: [(&str, &[u8]); 4] = [
        (
            "gzip",
            b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x48\xcd\xc9\xc9\x07\x00\x86\xa6\x10\x36\x05\x00\x00\x00",
        ),
        ("br", b"\x0b\x02\x80\x68\x65\x6c\x6c\x6f\x03"),
        ("zstd", b"\x28\xb5\x2f\xfd\x04\x58\x29\x00\x00\x68\x65\x6c\x6c\x6f\xa3\x6d\x9f\x88"),
        ("deflate", b"\x78\x9c\xcb\x48\xcd\xc9\xc9\x07\x00\x06\x2c\x02\x15"),
    ];

    #[tokio::test]
    async fn each_coding_is_read_in_any_spelling_and_leaves_no_header() {
        let spellings =
            HELLO.iter().flat_map(|(coding, body)| [((*coding).to_owned(), *body), (coding.to_uppercase(), body)]);
        for (coding, body) in spellings.chain([("x-gzip".to_owned(), HELLO[0].1), ("identity".to_owned(), b"hello")]) {
            let readable = readable(response(&[&coding], body)).unwrap();
            assert!(!readable.headers().contains_key("content-encoding"), "{coding}");
            assert_eq!(readable.into_body().collect().await.unwrap().to_bytes(), "hello", "{coding}");
        }
    }

    #[tokio::test]
    async fn an_empty_body_is_empty_whatever_its_coding() {
        let readable = readable(response(&["gzip"], b"")).unwrap();
        assert!(readable.into_body().collect().await.unwrap().to_bytes().is_empty());
    }

    #[tokio::test]
    async fn other_codings_are_refused_by_name_and_broken_content_is_an_error() {
        for (codings, told) in
            [(&["compress"][..], "compress"), (&["gzip", "br"], "gzip, br"), (&["gzip, br"], "gzip, br")]
        {
            let refused = readable(response(codings, b"x")).err().unwrap();
            assert_eq!(refused, UnknownCoding(told.to_owned()));
        }
        for (coding, body) in HELLO {
            let cut = readable(response(&[coding], &body[..body.len() - 1])).unwrap();
            let error = cut.into_body().collect().await.unwrap_err();
            assert!(error.to_string().starts_with("its compressed content cannot be read"), "{coding}: {error}");
            let false_name = readable(response(&[coding], b"{\"jsonrpc\":\"2.0\"}")).unwrap();
            assert!(false_name.into_body().collect().await.is_err(), "{coding}");
        }
    }
}
