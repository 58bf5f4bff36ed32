//! Output of clients. Knows nothing of the commands.

use serde_json::{Value, json};

use crate::model::{Client, Registrant};

/// Who registered a client, in a word.
pub(super) const fn registrant(registrant: Registrant) -> &'static str {
    match registrant {
        Registrant::Client => "client",
        Registrant::Document(_) => "its document",
        Registrant::Operator => "operator",
    }
}

/// A client as JSON, without secrets.
pub(super) fn document(client: &Client) -> Value {
    json!({
        "id": client.id, "name": client.name, "redirect_uris": client.redirect_uris,
        "authentication": client.auth.name(), "grant_types": client.grant_types, "scope": client.scope,
        "created": client.created.to_string(), "registered_by": registrant(client.registrant),
        "metadata": serde_json::from_str::<Value>(&client.metadata).unwrap_or_default(),
    })
}
