//! A client of one Streamable HTTP endpoint: persistent connections, one session, and nothing slow.

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::JoinSet,
};
use tokio_rustls::TlsConnector;

/// The handshake of a session.
pub(crate) const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A persistent connection, used by one request at a time.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    _driver: JoinSet<()>,
}

/// The destination of requests, and their headers.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) port: u16,
    pub(crate) path: String,
    headers: HeaderMap,
    tls: Option<TlsConnector>,
}

async fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

// === impl Connection ===

impl Connection {
    pub(crate) async fn open(port: u16) -> Result<Self> {
        Self::on(connect(port).await?).await
    }

    /// A connection for requests to this endpoint.
    pub(crate) async fn to(endpoint: &Endpoint) -> Result<Self> {
        let stream = connect(endpoint.port).await?;
        match &endpoint.tls {
            None => Self::on(stream).await,
            Some(tls) => Self::on(tls.connect(ServerName::try_from("127.0.0.1")?, stream).await?).await,
        }
    }

    async fn on(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<Self> {
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // The request that a closed connection cuts off will report it.
            let _ = connection.await;
        });
        Ok(Self { sender, _driver: driver })
    }

    /// One exchange, with its body still unread.
    pub(crate) async fn send(
        &mut self,
        endpoint: &Endpoint,
        method: Method,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        self.sender.ready().await?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = endpoint.path.parse()?;
        *request.headers_mut() = endpoint.headers.clone();
        Ok(self.sender.send_request(request).await?)
    }

    /// The body of the answer to a request, as it arrives; the connection lives as long as the stream.
    pub(crate) async fn into_stream(
        mut self,
        endpoint: &Endpoint,
        method: Method,
    ) -> Result<impl Stream<Item = Result<Bytes, hyper::Error>> + Send + use<>> {
        let response = self.send(endpoint, method, Bytes::new()).await?;
        ensure!(response.status() == StatusCode::OK, "{}", response.status());
        let body = response.into_body().into_data_stream();
        Ok(body.map(move |chunk| {
            let _open = &self;
            chunk
        }))
    }

    /// The body of the answer to a posted message, which must be 200 or 202.
    pub(crate) async fn post(&mut self, endpoint: &Endpoint, message: String) -> Result<Bytes> {
        let response = self.send(endpoint, Method::POST, message.into()).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        if !matches!(status, StatusCode::OK | StatusCode::ACCEPTED) {
            bail!("{status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(body)
    }
}

// === impl Endpoint ===

impl Endpoint {
    /// An endpoint without a session yet.
    pub(crate) fn new(port: u16, path: &str, token: Option<&str>) -> Result<Self> {
        let mut headers = HeaderMap::new();
        headers.insert("host", format!("127.0.0.1:{port}").parse()?);
        headers.insert("accept", HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        if let Some(token) = token {
            headers.insert("authorization", format!("Bearer {token}").parse()?);
        }
        Ok(Self { port, path: path.to_owned(), headers, tls: None })
    }

    pub(crate) fn over(self, tls: TlsConnector) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// The endpoint for calls of one tool by a 2026-07-28 client, which needs no session.
    pub(crate) fn modern(mut self, tool: &str) -> Result<Self> {
        self.headers.insert("mcp-protocol-version", HeaderValue::from_static("2026-07-28"));
        self.headers.insert("mcp-method", HeaderValue::from_static("tools/call"));
        self.headers.insert("mcp-name", tool.parse()?);
        Ok(self)
    }

    /// The endpoint with a new session: performs the handshake; after that, every request carries the session.
    pub(crate) async fn with_session(&self, connection: &mut Connection) -> Result<Self> {
        let response = connection.send(self, Method::POST, HELLO.into()).await?;
        ensure!(response.status() == StatusCode::OK, "initialize: {}", response.status());
        let session = response.headers().get("mcp-session-id").context("no session")?.clone();
        response.into_body().collect().await?;
        let mut opened = self.clone();
        opened.headers.insert("mcp-session-id", session);
        opened.headers.insert("mcp-protocol-version", HeaderValue::from_static("2025-11-25"));
        connection.post(&opened, INITIALIZED.to_owned()).await?;
        Ok(opened)
    }

    pub(crate) async fn end(self, connection: &mut Connection) -> Result<()> {
        connection.send(&self, Method::DELETE, Bytes::new()).await?.into_body().collect().await?;
        Ok(())
    }
}
