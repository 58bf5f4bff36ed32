//! The discovery documents (RFC 8414, RFC 9728, OpenID Connect Discovery).

use serde_json::{Map, Value, json};

use super::{
    clients::{client_documents::ClientDocumentSupport, client_keys},
    oauth_settings::OAuthSettings,
    policy,
};
use crate::model::{AdvertiseIss, Endpoint, Registration, Scopes, Target};

/// The profile of identity assertions (draft-ietf-oauth-identity-assertion-authz-grant).
const ID_JAG_PROFILE: &str = "urn:ietf:params:oauth:grant-profile:id-jag";

/// The metadata of one protected endpoint (RFC 9728 2; `OA-2` to `OA-5`).
pub(super) fn resource(settings: &OAuthSettings, endpoint: &Endpoint) -> Value {
    let name = match &endpoint.target {
        Target::Merged => "Lockkeeper".to_owned(),
        Target::Backend(backend) => format!("Lockkeeper: {backend}"),
    };
    json!({
        "resource": settings.resource(endpoint),
        "authorization_servers": [settings.issuer],
        "scopes_supported": names(&policy::baseline(endpoint)),
        "bearer_methods_supported": ["header"],
        "resource_name": name,
        "resource_documentation": format!("{}/", settings.issuer),
    })
}

/// The metadata of the authorization server (RFC 8414 2; `OA-8` to `OA-13`). No member is null or empty (`OA-15`).
pub(super) fn server(settings: &OAuthSettings, documents: ClientDocumentSupport) -> Map<String, Value> {
    let issuer = &settings.issuer;
    let methods = json!(["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]);
    let algorithms = json!(client_keys::ALGORITHMS.map(|(_, name)| name));
    let mut document = Map::new();
    let mut add = |name: &str, value: Value| document.insert(name.to_owned(), value);
    add("issuer", json!(issuer));
    add("authorization_endpoint", json!(format!("{issuer}/oauth/authorize")));
    add("token_endpoint", json!(format!("{issuer}/oauth/token")));
    if settings.policy.get().registration != Registration::Off {
        add("registration_endpoint", json!(format!("{issuer}/oauth/register")));
    }
    add("pushed_authorization_request_endpoint", json!(format!("{issuer}/oauth/par")));
    add("device_authorization_endpoint", json!(format!("{issuer}/oauth/device_authorization")));
    add("revocation_endpoint", json!(format!("{issuer}/oauth/revoke")));
    add("introspection_endpoint", json!(format!("{issuer}/oauth/introspect")));
    add("jwks_uri", json!(format!("{issuer}/oauth/jwks")));
    add("scopes_supported", json!(names(&policy::baseline(&Endpoint::MERGED))));
    add("response_types_supported", json!(["code"]));
    add("response_modes_supported", json!(["query"]));
    add("grant_types_supported", json!(settings.grant_types().collect::<Vec<_>>()));
    if settings.assertions.is_some() {
        add("authorization_grant_profiles_supported", json!([ID_JAG_PROFILE]));
    }
    add("token_endpoint_auth_methods_supported", methods.clone());
    add("token_endpoint_auth_signing_alg_values_supported", algorithms.clone());
    add("revocation_endpoint_auth_methods_supported", methods);
    add("revocation_endpoint_auth_signing_alg_values_supported", algorithms.clone());
    let confidential = json!(["client_secret_basic", "client_secret_post", "private_key_jwt"]);
    add("introspection_endpoint_auth_methods_supported", confidential);
    add("introspection_endpoint_auth_signing_alg_values_supported", algorithms);
    add("code_challenge_methods_supported", json!(["S256"]));
    if documents == ClientDocumentSupport::Announced {
        add("client_id_metadata_document_supported", json!(true));
    }
    if settings.policy.get().advertise_iss == AdvertiseIss::Yes {
        add("authorization_response_iss_parameter_supported", json!(true));
    }
    add("service_documentation", json!(format!("{issuer}/")));
    document
}

/// The same, with the members that strict parsers of OpenID Connect Discovery require (`OA-14`). No `id_token` is ever
/// issued.
pub(super) fn openid(settings: &OAuthSettings, documents: ClientDocumentSupport) -> Map<String, Value> {
    let mut document = server(settings, documents);
    document.insert("subject_types_supported".to_owned(), json!(["public"]));
    document.insert("id_token_signing_alg_values_supported".to_owned(), json!(["ES256"]));
    document
}

fn names(scopes: &Scopes) -> Vec<String> {
    scopes.iter().map(ToString::to_string).collect()
}
