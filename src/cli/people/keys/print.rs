//! Keys as text and JSON.

use serde_json::{Value, json};

use crate::{
    cli::terminal::{
        documents::{self, Became, FormatArgs},
        output::{Emphasis, Style},
        process::ProcessContext,
        table::{Cell, TextTable},
    },
    model::{ApiKey, Direct, KeyAccount, KeyKind},
    support::{Secret, Timestamp},
};

/// Prints a new key: the key on standard output, its description on standard error.
pub(super) fn once(process: &mut ProcessContext, form: FormatArgs, key: &ApiKey, secret: &Secret, became: Became) {
    if form.json {
        let mut document = document(key);
        document["secret"] = json!(secret.expose());
        process.output.json(&documents::change(became, document));
        return;
    }
    process.output.print(secret.expose());
    let user = if key.user.is_of_key() { "a user of its own".to_owned() } else { format!("user {}", key.user) };
    let what = format!("key {} ({}), {user}: {}", key.id, key.name, rights_text(key));
    process.output.remark(&format!("{what}\nThe key is not shown again. Revoke it: lockkeeper keys revoke {}", key.id));
}

/// The keys as a table.
pub(super) fn table(keys: &[ApiKey], now: Timestamp, style: Style) -> String {
    let mut table =
        TextTable::new(&["ID", "NAME", "USER", "KIND", "RIGHTS", "CREATED", "EXPIRES", "LAST USED", "STATE"]);
    let moment = |moment: Option<Timestamp>| Cell::from(moment.map_or("never".to_owned(), |moment| moment.to_string()));
    for key in keys {
        let state = match (&key.rotated, key.revoked) {
            (None, Some(_)) => Cell::from("revoked").emphasis(Emphasis::Bad),
            (_, None) if key.disabled.is_some() => Cell::from("user disabled").emphasis(Emphasis::Bad),
            (None, None) if key.is_live(now) => Cell::from("live").emphasis(Emphasis::Good),
            (None, None) => Cell::from("expired").emphasis(Emphasis::Waiting),
            (Some(rotated), None) if key.is_live(now) => {
                Cell::from(format!("until {}, then {}", rotated.until, rotated.successor)).emphasis(Emphasis::Waiting)
            }
            (Some(rotated), _) => Cell::from(format!("replaced by {}", rotated.successor)).emphasis(Emphasis::Bad),
        };
        table.row([
            Cell::from(&key.id),
            Cell::from(&key.name),
            if key.user.is_of_key() { Cell::from("(own)").emphasis(Emphasis::Faint) } else { Cell::from(&key.user) },
            Cell::from(kind_text(&key.kind)),
            Cell::from(rights_text(key)),
            Cell::from(key.created),
            moment(key.expires),
            moment(key.last_used),
            state,
        ]);
    }
    table.render(style)
}

/// A key as JSON, without the secret.
pub(super) fn document(key: &ApiKey) -> Value {
    let (issuer, subject) = match &key.kind {
        KeyKind::Secret(_) => (None, None),
        KeyKind::Account(KeyAccount::Provider { issuer, subject }) => (Some(issuer.as_str()), Some(subject.as_str())),
        KeyKind::Account(KeyAccount::Service { client }) => (None, Some(client.as_str())),
    };
    let networks = key.networks.listed().map(|listed| listed.iter().map(ToString::to_string).collect::<Vec<_>>());
    json!({
        "id": key.id, "name": key.name, "user": key.user, "rights": key.rights,
        "kind": key.kind.word(),
        "networks": networks,
        "direct": key.kind.direct() == Direct::Allowed,
        "issuer": issuer, "subject": subject,
        "created": key.created.to_string(),
        "expires": key.expires.map(|moment| moment.to_string()),
        "last_used": key.last_used.map(|moment| moment.to_string()),
        "revoked": key.revoked.map(|moment| moment.to_string()),
        "successor": key.rotated.as_ref().map(|rotated| &rotated.successor),
        "ends": key.ends().map(|moment| moment.to_string()),
        "given_by": key.history.given_by, "changed": key.history.changed.map(|moment| moment.to_string()),
        "changed_by": key.history.changed_by,
    })
}

/// The kind of a key, as text.
fn kind_text(kind: &KeyKind) -> String {
    match kind {
        KeyKind::Secret(Direct::Allowed) => "direct key".to_owned(),
        KeyKind::Account(KeyAccount::Provider { issuer, .. }) => format!("login at {issuer}"),
        KeyKind::Account(KeyAccount::Service { client }) => format!("service of {client}"),
        KeyKind::Secret(Direct::Refused) => kind.word().to_owned(),
    }
}

/// Rights and networks as text.
fn rights_text(key: &ApiKey) -> String {
    let mut words = key.rights.words();
    words.extend(key.networks.listed().iter().map(|_| format!("from {}", key.networks)));
    words.join(", ")
}
