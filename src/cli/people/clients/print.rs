//! Clients as text and JSON.

use serde_json::{Value, json};

use crate::model::{Client, ConsentRule, Registrant};

/// The word for who registered a client.
pub(super) const fn registrant(registrant: Registrant) -> &'static str {
    match registrant {
        Registrant::Client => "client",
        Registrant::Document(_) => "its document",
        Registrant::Operator(_) => "operator",
    }
}

/// The word for whether people are asked for consent.
pub(super) const fn consent(rule: ConsentRule) -> &'static str {
    match rule {
        ConsentRule::Asked => "asked",
        ConsentRule::Skipped => "skipped",
    }
}

/// A client as JSON, without secrets.
pub(super) fn document(client: &Client) -> Value {
    let rule = match client.registrant {
        Registrant::Operator(rule) => rule,
        Registrant::Client | Registrant::Document(_) => ConsentRule::Asked,
    };
    json!({
        "id": client.id, "name": client.name, "redirect_uris": client.redirect_uris,
        "authentication": client.auth.name(), "grant_types": client.grant_types, "scope": client.scope,
        "created": client.created.to_string(), "registered_by": registrant(client.registrant),
        "consent": consent(rule),
        "metadata": serde_json::from_str::<Value>(&client.metadata).unwrap_or_default(),
    })
}
