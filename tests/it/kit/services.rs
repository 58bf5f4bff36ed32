//! Well-known services with the answers shown in their documentation: one table for `connect`, servers of users and
//! login providers.

use http::StatusCode;
use serde_json::{Value, json};

use super::authority::{
    Endpoint, ScriptedAuthority,
    answers::{self, Answer},
};

pub(crate) struct Service {
    pub(crate) name: &'static str,
    /// Changed members of its metadata; null removes one.
    metadata: fn(&str) -> Value,
    well_known: &'static str,
    /// Changed members of token responses.
    tokens: fn() -> Value,
    shape: Option<fn(Answer) -> Answer>,
    /// Its answer to an ended refresh token.
    over: fn() -> (u16, Value),
    /// Its answer while it is unavailable.
    busy: fn() -> (u16, Value),
    /// True if clients can register themselves.
    pub(crate) registers: bool,
    /// True if other services use it for logins (OpenID Connect).
    pub(crate) is_provider: bool,
}

/// A client registered by hand.
pub(crate) const GIVEN: (&str, &str) = ("given", "s3cret");

const OAUTH: &str = "oauth-authorization-server";
const OPENID: &str = "openid-configuration";

fn nothing() -> Value {
    json!({})
}

fn invalid_grant() -> (u16, Value) {
    (400, json!({ "error": "invalid_grant", "error_description": "The refresh token is invalid or expired." }))
}

fn unavailable() -> (u16, Value) {
    (503, json!({ "error": "temporarily_unavailable" }))
}

/// A service that follows the specifications.
const PLAIN: Service = Service {
    name: "plain",
    metadata: |_| json!({ "token_endpoint_auth_methods_supported": ["none", "client_secret_post"] }),
    well_known: OAUTH,
    tokens: nothing,
    shape: None,
    over: invalid_grant,
    busy: unavailable,
    registers: true,
    is_provider: false,
};

/// The metadata of a service that does not announce PKCE.
fn without_pkce(_: &str) -> Value {
    json!({
        "code_challenge_methods_supported": null, "registration_endpoint": null,
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
    })
}

pub(crate) const SERVICES: [Service; 14] = [
    PLAIN,
    Service {
        name: "GitHub",
        metadata: |_| json!({ "registration_endpoint": null }),
        tokens: || json!({ "expires_in": 28800, "refresh_token_expires_in": 15_897_600, "scope": "repo,gist", "token_type": "bearer" }),
        shape: Some(answers::as_form),
        over: || {
            let text = "The refresh token passed is incorrect or expired.";
            (200, json!({ "error": "bad_refresh_token", "error_description": text }))
        },
        registers: false,
        ..PLAIN
    },
    Service {
        name: "Slack",
        metadata: |_| json!({ "registration_endpoint": null, "token_endpoint_auth_methods_supported": ["client_secret_post"] }),
        tokens: || json!({ "ok": true, "token_type": "user", "expires_in": 43200, "scope": "chat:write,users:read", "team": { "id": "T1" } }),
        over: || (200, json!({ "ok": false, "error": "invalid_refresh_token" })),
        busy: || (429, json!({ "ok": false, "error": "ratelimited" })),
        registers: false,
        ..PLAIN
    },
    Service {
        name: "Supabase",
        shape: Some(answers::as_created),
        over: || {
            let text = "Invalid Refresh Token: Refresh Token Not Found";
            (400, json!({ "code": 400, "error_code": "refresh_token_not_found", "msg": text }))
        },
        busy: || (500, json!({ "code": 500, "error_code": "unexpected_failure", "msg": "Database error" })),
        ..PLAIN
    },
    Service {
        name: "Figma",
        metadata: |_| json!({ "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"] }),
        tokens: || json!({ "token_type": "bearer", "expires_in": 7_776_000, "user_id_string": "1", "scope": null }),
        ..PLAIN
    },
    Service {
        name: "Entra ID v1",
        metadata: without_pkce,
        well_known: OPENID,
        tokens: || json!({ "expires_in": "3599", "ext_expires_in": "3599", "expires_on": "1764400000", "not_before": "1764396000" }),
        over: || {
            let text = "AADSTS70008: The refresh token has expired due to inactivity.";
            (400, json!({ "error": "invalid_grant", "error_description": text, "error_codes": [70008] }))
        },
        registers: false,
        is_provider: true,
        ..PLAIN
    },
    Service {
        name: "Entra ID v2",
        metadata: without_pkce,
        well_known: OPENID,
        tokens: || json!({ "expires_in": 3599, "ext_expires_in": 3599 }),
        over: || {
            let text = "AADSTS50076: Due to a configuration change you must use multi-factor authentication.";
            (400, json!({ "error": "interaction_required", "error_description": text, "suberror": "basic_action" }))
        },
        busy: || (503, json!({ "error": "temporarily_unavailable", "error_description": "AADSTS90006" })),
        registers: false,
        is_provider: true,
        ..PLAIN
    },
    Service {
        name: "Cognito",
        metadata: without_pkce,
        well_known: OPENID,
        tokens: || json!({ "scope": null }),
        over: || (400, json!({ "error": "invalid_grant" })),
        busy: || (429, json!({ "message": "Too Many Requests" })),
        registers: false,
        is_provider: true,
        ..PLAIN
    },
    Service {
        name: "Auth0",
        metadata: |issuer| json!({ "issuer": format!("{issuer}/") }),
        tokens: || json!({ "expires_in": 86400 }),
        over: || (403, json!({ "error": "invalid_grant", "error_description": "Unknown or invalid refresh token." })),
        is_provider: true,
        ..PLAIN
    },
    Service {
        name: "Okta",
        busy: || (429, json!({ "errorCode": "E0000047", "errorSummary": "API call exceeded rate limit" })),
        is_provider: true,
        ..PLAIN
    },
    Service {
        name: "Google",
        metadata: |_| json!({ "registration_endpoint": null, "code_challenge_methods_supported": ["plain", "S256"] }),
        well_known: OPENID,
        tokens: || json!({ "expires_in": 3599, "refresh_token_expires_in": 604_799 }),
        over: || (400, json!({ "error": "invalid_grant", "error_description": "Token has been expired or revoked." })),
        busy: || (500, json!({ "error": "internal_failure" })),
        registers: false,
        is_provider: true,
        ..PLAIN
    },
    Service {
        name: "Notion",
        metadata: |_| json!({ "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"] }),
        tokens: || json!({ "expires_in": 3600, "bot_id": "b", "workspace_name": "Acme", "duplicated_template_id": null }),
        over: || {
            (400, json!({ "error": "invalid_grant", "error_description": "Invalid refresh token", "request_id": "r" }))
        },
        busy: || (429, json!({ "object": "error", "status": 429, "code": "rate_limited", "message": "Slow down." })),
        ..PLAIN
    },
    Service { name: "Linear", tokens: || json!({ "expires_in": 86399, "scope": ["read", "write"] }), ..PLAIN },
    Service {
        name: "Atlassian",
        tokens: || json!({ "token_type": null }),
        over: || (403, json!({ "error": "invalid_grant", "error_description": "Unknown or invalid refresh token." })),
        busy: || (403, json!("<html>Request blocked")),
        ..PLAIN
    },
];

// === impl Service ===

impl Service {
    /// Makes an authorization server answer like this service.
    pub(crate) fn play(&self, authority: &ScriptedAuthority) {
        authority.script().well_known = self.well_known;
        authority.differs(Endpoint::Metadata, (self.metadata)(authority.issuer()));
        self.answer_tokens(authority);
        if !self.registers {
            authority.knows_client(GIVEN.0, GIVEN.1);
        }
    }

    /// Makes a token endpoint answer like this service.
    pub(crate) fn answer_tokens(&self, authority: &ScriptedAuthority) {
        authority.differs(Endpoint::Token, (self.tokens)());
        if let Some(shape) = self.shape {
            authority.shapes(Endpoint::Token, shape);
        }
    }

    /// Makes refresh tokens end.
    pub(crate) fn end(&self, authority: &ScriptedAuthority) {
        refuse_refreshes(authority, (self.over)());
    }

    /// Makes refreshes fail for a while.
    pub(crate) fn fail(&self, authority: &ScriptedAuthority) {
        refuse_refreshes(authority, (self.busy)());
    }

    /// True if its metadata does not mention PKCE.
    pub(crate) fn hides_pkce(&self) -> bool {
        (self.metadata)("https://as.example").get("code_challenge_methods_supported").is_some_and(Value::is_null)
    }
}

fn refuse_refreshes(authority: &ScriptedAuthority, (status, body): (u16, Value)) {
    let answer = answers::json(StatusCode::from_u16(status).unwrap(), &body);
    authority
        .answers_if(Endpoint::Token, move |asked| (asked.get("grant_type") == "refresh_token").then(|| answer.clone()));
}
