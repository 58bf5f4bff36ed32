//! A request, as an endpoint reads it.

use std::collections::HashMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Request, header};
use serde_json::Value;
use url::form_urlencoded;

/// A request to an endpoint.
pub(crate) struct Asked {
    headers: HeaderMap,
    pub(crate) body: String,
    /// The parameters of the query and of a form.
    parameters: HashMap<String, String>,
}

impl Asked {
    pub(crate) fn read(request: &Request<Bytes>) -> Self {
        let body = String::from_utf8(request.body().to_vec()).unwrap();
        let query = request.uri().query().unwrap_or_default();
        let texts = [query, &body].into_iter();
        let parameters = texts.flat_map(|text| form_urlencoded::parse(text.as_bytes()).into_owned()).collect();
        Self { headers: request.headers().clone(), parameters, body }
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// A parameter; empty if it is absent.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }

    /// The `Authorization` header; empty if it is absent.
    pub(crate) fn authorization(&self) -> &str {
        self.headers.get(header::AUTHORIZATION).map_or("", |value| value.to_str().unwrap())
    }

    /// The client's id and how it authenticates: a method, and the secret as that method sends it.
    pub(super) fn client(&self) -> (String, ClientProof) {
        if let Some(credentials) = self.authorization().strip_prefix("Basic ") {
            let text = STANDARD.decode(credentials).unwrap();
            let id = text.split(|byte| *byte == b':').next().unwrap();
            let id = form_urlencoded::parse(id).next().unwrap().0.into_owned();
            return (id, ClientProof::Basic(credentials.to_owned()));
        }
        let proof = self.parameters.get("client_secret").cloned().map_or(ClientProof::None, ClientProof::Post);
        (self.get("client_id").to_owned(), proof)
    }

    pub(super) fn resource(&self) -> &'static str {
        match self.get("resource") {
            "" => "none",
            resource if resource.ends_with("/mcp") => "mcp",
            _ => "other",
        }
    }
}

/// A client's proof of identity.
pub(super) enum ClientProof {
    None,
    /// A secret in the body.
    Post(String),
    /// Credentials in the header.
    Basic(String),
}

// === impl ClientProof ===

impl ClientProof {
    /// The method's name in metadata.
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Post(_) => "client_secret_post",
            Self::Basic(_) => "client_secret_basic",
        }
    }

    /// True if it proves that the client has this id and secret.
    pub(super) fn is_of(&self, id: &str, secret: Option<&str>) -> bool {
        let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        match (self, secret) {
            (Self::None, None) => true,
            (Self::Post(sent), Some(secret)) => sent == secret,
            // RFC 6749 2.3.1: id and secret are encoded as in a form
            (Self::Basic(sent), Some(secret)) => {
                *sent == STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)))
            }
            (Self::None, Some(_)) | (Self::Post(_) | Self::Basic(_), None) => false,
        }
    }
}
