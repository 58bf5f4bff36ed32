//! The envelope of a request without a session: version, client and capabilities. A transport that repeats parts of the
//! body in headers compares the two between [`RequestEnvelope::read`] and [`RequestEnvelope::check`] (the order of
//! `translation` 2.8).

use bytes::Bytes;

use crate::{
    frontend::request_limits::ClientDescription,
    mcp::{ErrorObject, IndexedJson, Level, Method, Revision, json, meta, methods::MethodAccess},
};

/// The envelope of a request.
#[derive(Debug, Clone)]
pub(crate) struct RequestEnvelope {
    /// The client's description of itself.
    pub(crate) client: ClientDescription,
    /// The minimum level of log messages; `None` for no log messages (2026-07-28, logging).
    pub(crate) level: Option<Level>,
    /// The version as the client wrote it.
    pub(crate) version: String,
}

/// The texts of an envelope's members, found in one pass.
#[derive(Default)]
struct HeldEnvelope<'a> {
    version: Option<&'a str>,
    client: Option<&'a str>,
    capabilities: Option<&'a str>,
    level: Option<&'a str>,
}

// === impl HeldEnvelope ===

impl<'a> HeldEnvelope<'a> {
    fn of(params: &'a IndexedJson) -> Self {
        let mut held = Self::default();
        for (name, value) in params.meta_members() {
            let member = match &*json::name_of(name) {
                meta::PROTOCOL_VERSION => &mut held.version,
                meta::CLIENT_INFO => &mut held.client,
                meta::CLIENT_CAPABILITIES => &mut held.capabilities,
                meta::LOG_LEVEL => &mut held.level,
                _ => continue,
            };
            *member = Some(value);
        }
        held
    }
}

// === impl RequestEnvelope ===

impl RequestEnvelope {
    /// Reads the envelope from a request's parameters.
    ///
    /// # Errors
    ///
    /// `-32602` if it is malformed.
    pub(crate) fn read(params: &IndexedJson) -> Result<Self, ErrorObject> {
        let held = HeldEnvelope::of(params);
        let object = |key, value: Option<&str>| match value {
            Some(value) if value.starts_with('{') => Ok(Some(params.slice_ref(value.as_bytes()))),
            Some(_) => Err(malformed(key, "an object")),
            None => Ok(None),
        };
        let level = match held.level {
            Some(name) => {
                let level = json::unquoted(name).and_then(|name| Level::parse(&name));
                Some(level.ok_or_else(|| malformed(meta::LOG_LEVEL, "a log level"))?)
            }
            None => None,
        };
        let version = held.version.and_then(json::unquote);
        let version = version.ok_or_else(|| malformed(meta::PROTOCOL_VERSION, "a string"))?;
        let client = ClientDescription {
            // an unsupported version is refused by the check
            revision: served(&version).unwrap_or(Revision::NEWEST),
            // a client need not identify itself
            implementation: object(meta::CLIENT_INFO, held.client)?.unwrap_or_else(unnamed),
            capabilities: object(meta::CLIENT_CAPABILITIES, held.capabilities)?
                .ok_or_else(|| missing(meta::CLIENT_CAPABILITIES))?,
        };
        Ok(Self { client, level, version })
    }

    /// Checks that a request for `method` can be served.
    ///
    /// # Errors
    ///
    /// `-32022` if the version is not supported, `-32601` if the version does not have the method.
    pub(crate) fn check(&self, method: &Method) -> Result<(), ErrorObject> {
        if served(&self.version).is_none() {
            return Err(unsupported(&self.version));
        }
        if !is_known(method) || method.is_notification() {
            return Err(ErrorObject::method_not_found(method.as_str()));
        }
        Ok(())
    }
}

/// False for methods of sessions or of servers. An unknown method may be a custom one.
fn is_known(method: &Method) -> bool {
    method.is_in(Revision::V2026_07_28) && method.access() != MethodAccess::OfServers
}

fn unnamed() -> Bytes {
    Bytes::from_static(br#"{"name":"unnamed","version":"0"}"#)
}

fn missing(key: &str) -> ErrorObject {
    ErrorObject::invalid_params(&format!("Invalid params: `_meta` must have `{key}`"))
}

fn malformed(key: &str, form: &str) -> ErrorObject {
    ErrorObject::invalid_params(&format!("Invalid params: `{key}` in `_meta` must be {form}"))
}

/// The version with this name; `None` if it is unknown or needs a session.
fn served(version: &str) -> Option<Revision> {
    Revision::MODERN.into_iter().find(|revision| revision.as_str() == version)
}

/// The error with the versions that need no session, so that the client can choose one (2026-07-28, versioning). The
/// others are left out, because a client would try them in the same way.
pub(crate) fn unsupported(requested: &str) -> ErrorObject {
    let data = serde_json::json!({ "supported": Revision::MODERN.map(Revision::as_str), "requested": requested });
    ErrorObject::with_data(ErrorObject::UNSUPPORTED_VERSION, "Unsupported protocol version", &data)
}
