//! Asks the running gateway: on this machine through its control file, or anywhere through its URL with an API key.
//! Knows nothing of what the answers mean.

use std::{path::PathBuf, time::Duration};

use reqwest::{StatusCode, header, redirect::Policy};

use super::{arguments::Data, failure::Failure, process::Process};
use crate::app::Control;
use crate::{config::PublicUrl, model::status::Status, support::Secret};

/// How long the gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which gateway is asked: the one whose data is here, or the one at a URL.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Target {
    #[command(flatten)]
    data: Data,
    /// Asks the gateway at this URL instead, with an API key that may administer
    #[arg(long, value_name = "URL", value_parser = PublicUrl::parse)]
    url: Option<PublicUrl>,
    /// The file that holds the API key; where it is not given, `LOCKKEEPER_API_KEY` holds the key itself
    #[arg(long, value_name = "FILE", requires = "url")]
    api_key_file: Option<PathBuf>,
}

/// A gateway that can be asked.
#[derive(Debug)]
pub struct Gateway {
    url: String,
    host: Option<String>,
    token: Option<Secret>,
}

// === impl Target ===

impl Target {
    /// The gateway that is meant.
    pub fn find(&self, process: &Process) -> Result<Gateway, Failure> {
        let Some(url) = &self.url else { return Gateway::local(&self.data, process) };
        let key = match &self.api_key_file {
            Some(path) => std::fs::read_to_string(process.folder.join(path))
                .map_err(|error| Failure::usage(format!("{} cannot be read", path.display())).why(error))?,
            None => process.environment.get("LOCKKEEPER_API_KEY").unwrap_or_default().to_owned(),
        };
        if key.trim().is_empty() {
            let advice = "put it into LOCKKEEPER_API_KEY, or name its file: --api-key-file FILE";
            return Err(Failure::usage("an API key is needed to ask a gateway by its URL").advise(advice));
        }
        Ok(Gateway { url: url.to_string(), host: None, token: Some(Secret::new(key.trim())) })
    }
}

// === impl Gateway ===

impl Gateway {
    /// The gateway that runs on the data here.
    pub fn local(data: &Data, process: &Process) -> Result<Self, Failure> {
        let folder = data.folder(process)?;
        let unknown = |why: String| {
            Failure::failed("no gateway can be asked")
                .why(why)
                .advise("start it with `lockkeeper serve`, or say where its data is: `--data-dir DIR`")
        };
        match Control::read(&folder) {
            Ok(Some(control)) => Ok(Self { url: control.url, host: Some(control.host), token: Some(control.token) }),
            Ok(None) => Err(unknown(format!("none runs on the data in {}", folder.display()))),
            Err(error) => Err(unknown(format!("its control file in {} cannot be read: {error}", folder.display()))),
        }
    }

    /// What the gateway says of itself, and the document as it came.
    pub async fn status(&self) -> Result<(Status, serde_json::Value), Failure> {
        let text = self.get("/api/status").await?;
        let strange = |error: serde_json::Error| {
            Failure::failed(format!("what answers at {} is no gateway of this version", self.url)).why(error)
        };
        let document: serde_json::Value = serde_json::from_str(&text).map_err(strange)?;
        let status = serde::Deserialize::deserialize(&document).map_err(strange)?;
        Ok((status, document))
    }

    /// The body at `path`.
    pub async fn get(&self, path: &str) -> Result<String, Failure> {
        let silent = |error: reqwest::Error| {
            let why = if error.is_timeout() { "it did not answer in time".to_owned() } else { root_cause(&error) };
            Failure::failed(format!("the gateway at {} does not answer", self.url))
                .why(why)
                .advise("is it running? `lockkeeper serve` starts it")
        };
        let client = reqwest::Client::builder().redirect(Policy::none()).timeout(PATIENCE).no_proxy();
        let mut request = client.build().map_err(silent)?.get(format!("{}{path}", self.url));
        if let Some(host) = &self.host {
            request = request.header(header::HOST, host);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose());
        }
        let answer = request.send().await.map_err(silent)?;
        match answer.status() {
            status if status.is_success() => answer.text().await.map_err(silent),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(Failure::failed(format!("the gateway at {} refuses to tell", self.url))
                    .why("the API key is wrong, ended, or may not administer")
                    .advise("create one that may: `lockkeeper keys create NAME --admin --direct`"))
            }
            status => Err(Failure::failed(format!("the gateway at {} answered {status}", self.url))),
        }
    }
}

/// The innermost reason, which is the one that helps.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
