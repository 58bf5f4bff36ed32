//! HTTP client of the running gateway: on this machine by its control file, or anywhere by its URL and an API key.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use serde_json::Value;
use tokio::net::UnixStream;
use url::{
    Url,
    form_urlencoded::{self, byte_serialize},
};

use crate::{
    app::{ControlFile, connect_local_socket},
    cli::{
        arguments,
        terminal::{
            failure::CommandFailure,
            process::{CommandPurpose, ProcessContext},
        },
    },
    config::{PublicUrl, text_of},
    fetch::{self, BodyBound, FetchError, FetchRequest, OpenBounds, OpenClient},
    model::status::Status,
    oauth_client::is_loopback,
    support::Secret,
};

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of an answer, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// The gateway to ask: the one on the local data, or the one at a URL.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct GatewayArgs {
    /// Asks the gateway at this URL, with an API key that has admin rights
    #[arg(long, value_name = "URL", value_parser = PublicUrl::of_gateway)]
    url: Option<PublicUrl>,
    /// File with the API key; default: the environment variable `LOCKKEEPER_API_KEY`
    #[arg(long, value_name = "FILE", requires = "url")]
    api_key_file: Option<PathBuf>,
}

/// A running gateway.
#[derive(Debug)]
pub struct GatewayClient {
    url: String,
    host: Option<String>,
    /// The gateway's socket on this machine, if it has one.
    socket: Option<PathBuf>,
    token: Option<Secret>,
}

// === impl GatewayArgs ===

impl GatewayArgs {
    /// Relation to the running gateway: none if `--url` names another one.
    pub(in crate::cli) fn purpose(&self) -> CommandPurpose {
        if self.url.is_some() { CommandPurpose::Unrelated } else { CommandPurpose::Asks }
    }

    /// The selected gateway.
    pub fn find(&self, process: &ProcessContext) -> Result<GatewayClient, CommandFailure> {
        let Some(url) = &self.url else { return GatewayClient::local(process) };
        let key = api_key(self.api_key_file.as_deref(), process)?;
        Ok(GatewayClient { url: url.to_string(), host: None, socket: None, token: Some(key) })
    }
}

/// The API key for a gateway: in this file, else in the environment.
pub(in crate::cli) fn api_key(file: Option<&Path>, process: &ProcessContext) -> Result<Secret, CommandFailure> {
    let key = match file {
        Some(path) => text_of(&process.folder.join(path))
            .map_err(|error| CommandFailure::failed(format!("{} cannot be read", path.display())).why(error))?,
        None => process.environment.get("LOCKKEEPER_API_KEY").unwrap_or_default().to_owned(),
    };
    if key.trim().is_empty() {
        let advice = "set LOCKKEEPER_API_KEY, or use --api-key-file FILE";
        return Err(CommandFailure::usage("a gateway at a URL needs an API key").advise(advice));
    }
    Ok(Secret::new(key.trim()))
}

/// The failure of a request with this key to a gateway at a URL; `silent` is the reason if there was no answer. A
/// gateway refuses all keys that do not open `/mcp` alike, so this asks at `/sse`: a key for the browser opens that.
pub(in crate::cli) async fn refused(gateway: &PublicUrl, key: &Secret, silent: Option<String>) -> CommandFailure {
    if let Some(why) = silent {
        return CommandFailure::failed(format!("the server at {gateway} does not answer like a gateway"))
            .why(why)
            .advise("check the URL, and that it is running");
    }
    let failure = CommandFailure::failed(format!("the gateway at {gateway} refused the key"));
    if opens_stream(gateway, key).await {
        return failure
            .why("it is a key for the login page in the browser, and not for programs")
            .advise("create one for programs: `lockkeeper keys create NAME --direct`");
    }
    failure
        .why("it is unknown there, or has ended or been revoked")
        .advise("`lockkeeper keys list` shows the keys of the gateway; a key is shown only once, when it is created")
}

async fn opens_stream(gateway: &PublicUrl, key: &Secret) -> bool {
    let Ok(url) = Url::parse(&format!("{gateway}/sse")) else { return false };
    let Ok(value) = HeaderValue::try_from(format!("Bearer {}", key.expose())) else { return false };
    let Ok(client) = OpenClient::direct() else { return false };
    let bounds = OpenBounds { deadline: REQUEST_TIMEOUT, body: BodyBound::Beginning(1) };
    let answer = client.send(FetchRequest::get(url).header(header::AUTHORIZATION, value), bounds).await;
    answer.is_ok_and(|answer| answer.status().is_success())
}

// === impl GatewayClient ===

impl GatewayClient {
    /// The gateway on the local data.
    pub fn local(process: &ProcessContext) -> Result<Self, CommandFailure> {
        let folder = arguments::data_folder(process)?;
        let unknown = |why: String| {
            CommandFailure::failed("no running gateway found")
                .why(why)
                .advise("start it with `lockkeeper serve`, or set its data folder: `--data-dir DIR`")
        };
        match ControlFile::read(&folder) {
            Ok(Some(ControlFile { url, host, socket, token })) => {
                Ok(Self { url, host: Some(host), socket, token: Some(token) })
            }
            Ok(None) => Err(unknown(format!("none is running with the data in {}", folder.display()))),
            Err(error) => Err(unknown(format!("its control file in {} cannot be read: {error}", folder.display()))),
        }
    }

    /// The loopback URL of a gateway without another public URL; `None` if it has one.
    pub fn loopback_url(&self) -> Option<&str> {
        let authority = self.url.split_once("://")?.1.trim_end_matches('/');
        (self.host.as_deref() == Some(authority)).then_some(self.url.as_str())
    }

    /// The URL under which clients reach a gateway on this machine. The control file has the host without a scheme, so
    /// this assumes `http` for loopback hosts, and `https` for others.
    pub fn public_url(&self) -> Option<String> {
        if let Some(loopback) = self.loopback_url() {
            return Some(loopback.to_owned());
        }
        let host = self.host.as_deref()?;
        let url = Url::parse(&format!("https://{host}")).ok()?;
        Some(format!("{}://{host}", if is_loopback(&url) { "http" } else { "https" }))
    }

    /// Status of the gateway, parsed and as JSON.
    pub async fn status(&self) -> Result<(Status, Value), CommandFailure> {
        let text = self.get("/api/status").await?;
        let strange = |error: serde_json::Error| {
            CommandFailure::failed(format!("the server at {} is not a gateway of this version", self.url)).why(error)
        };
        let document: Value = serde_json::from_str(&text).map_err(strange)?;
        let status = serde::Deserialize::deserialize(&document).map_err(strange)?;
        Ok((status, document))
    }

    /// The body at `path`.
    pub async fn get(&self, path: &str) -> Result<String, CommandFailure> {
        let answer = self.send(Method::GET, path).await?;
        match answer.status() {
            status if status.is_success() => Ok(String::from_utf8_lossy(answer.body()).into_owned()),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(CommandFailure::failed(format!("the gateway at {} refused the request", self.url))
                    .why("the API key is wrong, has ended, or has no admin rights")
                    .advise("create one with admin rights: `lockkeeper keys create NAME --admin --direct`"))
            }
            status => Err(CommandFailure::failed(format!("the gateway at {} answered {status}", self.url))),
        }
    }

    /// Sends a request that only commands on the gateway's machine may make, to the path `/api/` with these segments
    /// and query parameters, and returns the answer.
    pub async fn operate(
        &self,
        method: Method,
        segments: &[&str],
        parameters: &[(&str, &str)],
    ) -> Result<Value, CommandFailure> {
        let encoded = segments.iter().map(|segment| byte_serialize(segment.as_bytes()).collect::<String>());
        let path = encoded.collect::<Vec<_>>().join("/");
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let answer = self.send(method, &format!("/api/{path}?{query}")).await?;
        let document: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        if answer.status().is_success() {
            return Ok(document);
        }
        let said = |member: &str| document[member].as_str().filter(|text| !text.is_empty());
        let Some(error) = said("error") else {
            return Err(CommandFailure::failed(format!("the gateway at {} answered {}", self.url, answer.status()))
                .why("it has an earlier version, or is another program")
                .advise("restart it, so that it has the version of this command"));
        };
        let failure = CommandFailure::failed(error);
        Err(match said("advice") {
            Some(advice) => failure.advise(advice),
            None => failure,
        })
    }

    async fn send(&self, method: Method, path: &str) -> Result<Response<Bytes>, CommandFailure> {
        let silent = |error: FetchError| {
            let why = match error {
                FetchError::TooSlow(_) => "it did not answer in time".to_owned(),
                error => error.reason(),
            };
            CommandFailure::failed(format!("the gateway at {} does not answer", self.url))
                .why(why)
                .advise("check that it is running; `lockkeeper serve` starts it")
        };
        let address = format!("{}{path}", self.url);
        let wrong = |why: String| CommandFailure::failed(format!("{address} cannot be requested")).why(why);
        let url = Url::parse(&address).map_err(|error| wrong(error.to_string()))?;
        let accept = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("application/json"))]);
        let mut request = FetchRequest::new(method, url, accept, Bytes::new());
        let value = |text: &str| HeaderValue::try_from(text).map_err(|error| wrong(error.to_string()));
        if let Some(host) = &self.host {
            request = request.header(header::HOST, value(host)?);
        }
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, value(&format!("Bearer {}", token.expose()))?);
        }
        let bounds = OpenBounds { deadline: REQUEST_TIMEOUT, body: BodyBound::Whole(MAX_ANSWER) };
        let answer = if let Some(path) = &self.socket {
            let stream = connect_local_socket(path).and_then(|stream| {
                stream.set_nonblocking(true)?;
                UnixStream::from_std(stream)
            });
            let stream = stream.map_err(|error| silent(FetchError::Unreachable(error.to_string())))?;
            fetch::send_over(stream, request, bounds).await
        } else {
            let client = OpenClient::direct()
                .map_err(|error| CommandFailure::failed("outbound HTTP cannot be set up").why(error))?;
            client.send(request, bounds).await
        };
        answer.map_err(silent)
    }
}
