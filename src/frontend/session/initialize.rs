//! The handshake of a session: the client describes itself, and gets the server information.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    exchange::{ExchangeContext, SessionExchange},
    inbound::{Inbound, empty, refuse},
};
use crate::{
    frontend::state::BehindEndpoint,
    mcp::{
        Call, Capabilities, ClientInfo, Context, ErrorObject, LogLevel, Method, Outcome, Payload, Reply, RequestId,
        Revision,
        client_translator::ClientTranslator,
        extensions,
        json::{self, Object},
        meta,
    },
    model::Requester,
};

/// Maximum size of `clientInfo`, in bytes.
const MAX_IMPLEMENTATION: usize = 16 * 1024;
/// Maximum size of `capabilities`, in bytes.
const MAX_CAPABILITIES: usize = 64 * 1024;

// === impl Inbound ===

impl Inbound<'_> {
    pub(crate) fn initialize(&self, id: RequestId, params: &Bytes) -> SessionExchange {
        match read_client(params) {
            Ok(client) => self.open(id, client),
            Err(error) => refuse(id, error),
        }
    }

    /// Opens the session for this client, and asks the server for its information. Until the client confirms the
    /// answer, it gets the same answer if it repeats the same description. The Python SDK 1.12 sends each request twice
    /// after a login, and a client may retry a connection whose servers could not be reached.
    pub(crate) fn open(&self, id: RequestId, client: ClientInfo) -> SessionExchange {
        let revision = client.revision;
        // task ids that the client assigns are its own, and ambiguous among several servers; in a version without
        // tasks, the capability means something else
        let has_tasks = self.sender.servers.behind == BehindEndpoint::One && revision.has_core_tasks();
        let client = if has_tasks { client } else { client.without_tasks() };
        if !self.session.introduce(&client, &self.state.settings) {
            let message = "Invalid Request: the session is initialized already";
            return refuse(id, ErrorObject::new(ErrorObject::INVALID_REQUEST, message));
        }
        let Some(client) = self.session.client() else { return empty(id) };
        tracing::info!(session = %self.session.id, revision = %revision, user = %self.sender.admission.caller.user,
            client = %client.display(), "a client opens a session");
        // the session starts with the answer; before that, the gateway asks the server in its own name
        let context = Context { requester: Requester::Gateway, level: LogLevel::default(), ..self.context(client) };
        let call = Call { method: Method::Discover, params: Payload::absent(revision), context };
        let translator =
            ClientTranslator::new(client, call.context.profile, &Method::Initialize, &Payload::absent(revision));
        let exchange = ExchangeContext { translator, ..self.exchange_context(self.on_disconnect(), &call) };
        let reply = self.sender.servers.sessions.call(call);
        let (state, session) = (Arc::clone(self.state), Arc::clone(self.session));
        let reply = async move {
            let error = match reply.outcome().await {
                Outcome::Complete(discovered) => {
                    state.sessions.store(&session).await;
                    return Reply::complete(result(&discovered, revision));
                }
                Outcome::Failed(error) => error,
                Outcome::InputRequired(_) => ErrorObject::internal("the server asks before it says who it is"),
            };
            // a session that is a connection ends with it, so the error must be sent first
            if !session.is_connection() {
                state.sessions.forget(&session);
            }
            Reply::failed(error)
        };
        // all versions, cancellation: `initialize` is never cancelled
        self.exchange(id, Reply::later(reply), None, exchange)
    }
}

/// Reads the parameters of `initialize`. The version is required. A missing `capabilities` or `clientInfo` counts as
/// empty, because old clients leave them out.
pub(crate) fn read_client(params: &Bytes) -> Result<ClientInfo, ErrorObject> {
    let refuse = |what: &str| ErrorObject::invalid_params(&format!("Invalid params: {what}"));
    let params = Object::parse(params).ok_or_else(|| refuse("initialize has no `params` object"))?;
    let requested = params.string("protocolVersion").ok_or_else(|| refuse("`protocolVersion` is not a string"))?;
    let object = |name: &str, longest: usize| {
        let text = params.get(name).unwrap_or("{}");
        if !text.starts_with('{') {
            return Err(refuse(&format!("`{name}` is no object")));
        }
        if text.len() > longest {
            return Err(refuse(&format!("`{name}` is longer than {longest} bytes")));
        }
        // a copy, so that the rest of the request can be dropped
        Ok(Bytes::copy_from_slice(text.as_bytes()))
    };
    Ok(ClientInfo {
        revision: Revision::negotiate(&requested),
        implementation: object("clientInfo", MAX_IMPLEMENTATION)?,
        capabilities: Capabilities::new(object("capabilities", MAX_CAPABILITIES)?),
    })
}

/// The `InitializeResult` for a client of `revision`, from a 2026-07-28 `DiscoverResult`. Capabilities, instructions
/// and the server's name pass unchanged, except for capabilities that this version cannot use. The payload counts as
/// written in the newest version with a handshake, because server information may have members of any later version.
fn result(discovered: &Payload, revision: Revision) -> Payload {
    let object = discovered.object();
    let member = |name| object.as_ref().and_then(|object| object.get(name));
    let server_info = member(meta::META)
        .and_then(|meta| Object::parse(meta.as_bytes())?.get(meta::SERVER_INFO))
        .map_or_else(ClientInfo::gateway_implementation, |info| Bytes::copy_from_slice(info.as_bytes()));
    let declared = member("capabilities").unwrap_or("{}");
    let capabilities = extensions::for_session(Bytes::copy_from_slice(declared.as_bytes()), revision);
    let result = Payload::empty(Revision::NEWEST_LEGACY)
        .with("protocolVersion", &json::quote(revision.as_str()))
        .with("capabilities", &String::from_utf8_lossy(&capabilities))
        .with("serverInfo", &String::from_utf8_lossy(&server_info));
    let result = match member("instructions") {
        Some(instructions) => result.with("instructions", instructions),
        None => result,
    };
    match member(meta::META).and_then(vendor_meta) {
        Some(vendor) => result.with(meta::META, &vendor),
        None => result,
    }
}

/// The members of `_meta` that the server itself defined (`translation` 3.4, *`_meta` keys*); `None` if there are none.
fn vendor_meta(text: &str) -> Option<String> {
    let control = [meta::SERVER_INFO, meta::SUBSCRIPTION_ID];
    let all = Bytes::copy_from_slice(text.as_bytes());
    let rest = control.iter().fold(all, |text, key| json::without_member(&text, key));
    Object::parse(&rest)?.iter().next()?;
    Some(String::from_utf8_lossy(&rest).into_owned())
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn read(text: &'static str) -> Result<ClientInfo, ErrorObject> {
        read_client(&Bytes::from_static(text.as_bytes()))
    }

    fn told(discovered: &'static str, revision: Revision) -> String {
        let discovered = Payload::new(Revision::V2026_07_28, Bytes::from_static(discovered.as_bytes()));
        String::from_utf8(result(&discovered, revision).json().to_vec()).unwrap()
    }

    #[test]
    fn a_client_is_read_with_everything_it_says() {
        let client = read(
            r#"{"protocolVersion":"2024-11-05","capabilities":{"sampling":{}, "x":1},"clientInfo":{"name":"c","version":"1"}}"#,
        )
        .unwrap();
        assert_eq!(client.revision, Revision::V2024_11_05);
        assert_eq!(client.capabilities.json(), r#"{"sampling":{}, "x":1}"#);
        assert_eq!(client.display(), "c 1");
        assert_eq!(read(r#"{"protocolVersion":"2099-01-01"}"#).unwrap().revision, Revision::NEWEST_LEGACY);
    }

    #[test]
    fn invalid_initialize_parameters_are_refused() {
        for params in ["", "{}", r#"{"protocolVersion":1}"#, r#"{"protocolVersion":"2025-06-18","capabilities":[]}"#] {
            assert_eq!(read(params).unwrap_err().code(), ErrorObject::INVALID_PARAMS, "{params}");
        }
        let long = format!(r#"{{"protocolVersion":"2025-06-18","clientInfo":{{"name":"{}"}}}}"#, "x".repeat(20_000));
        assert!(read_client(&Bytes::from(long)).is_err());
    }

    #[test]
    fn a_discovered_server_is_told_in_the_words_of_each_version() {
        let discovered = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}, "tasks":{},"extensions":{"io.modelcontextprotocol/tasks":{},"x/y":{}}},"instructions":"Be \u00e9","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"}}}"#;
        assert_snapshot!(told(discovered, Revision::V2025_06_18), @r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"extensions":{"x/y":{}}},"serverInfo":{"name":"s","version":"2"},"instructions":"Be \u00e9"}"#);
        assert_snapshot!(told(discovered, Revision::V2025_11_25), @r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}, "tasks":{},"extensions":{"x/y":{}}},"serverInfo":{"name":"s","version":"2"},"instructions":"Be \u00e9"}"#);
    }

    #[test]
    fn vendor_members_of_meta_survive() {
        let discovered = r#"{"capabilities":{},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"}, "v.example/x":{ "y":1.0}}}"#;
        assert_snapshot!(told(discovered, Revision::V2025_06_18), @r#"{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"2"},"_meta":{ "v.example/x":{ "y":1.0}}}"#);
    }

    #[test]
    fn the_extension_is_shown_as_the_feature_to_those_who_have_it() {
        let discovered = r#"{"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"}}}"#;
        assert_snapshot!(told(discovered, Revision::V2025_11_25), @r#"{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"2"}}"#);
        assert_snapshot!(told(discovered, Revision::V2025_06_18), @r#"{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"2"}}"#);
    }

    #[test]
    fn a_server_without_a_name_goes_by_the_gateways() {
        let told =
            told(r#"{"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#, Revision::V2024_11_05);
        assert!(
            told.starts_with(r#"{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"lockkeeper""#)
        );
    }
}
