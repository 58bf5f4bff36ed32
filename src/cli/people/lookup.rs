//! Finds the user or the key that a person means by an argument, and names the users that are keys.

use std::collections::HashMap;

use crate::{
    cli::{
        store::{self, AdminStore},
        terminal::failure::CommandFailure,
    },
    model::{ApiKey, KeyId, UserId},
    oauth::OAuthError,
};

/// The names of keys by their ids. A key without a user name is its own user, and is also found by that.
#[derive(Debug, Default)]
pub(in crate::cli) struct KeyNames {
    by_id: HashMap<KeyId, String>,
    by_user: HashMap<UserId, String>,
}

impl KeyNames {
    /// The names of the keys in this store.
    pub(in crate::cli) async fn of(store: &AdminStore) -> Result<Self, OAuthError> {
        let mut names = Self::default();
        for key in store.oauth.keys().list().await? {
            if key.user.is_of_key() {
                names.by_user.insert(key.user, key.name.clone());
            }
            names.by_id.insert(key.id, key.name);
        }
        Ok(names)
    }

    /// The name of the key that this user is; `None` if the user is not a key.
    pub(in crate::cli) fn get(&self, user: &UserId) -> Option<&str> {
        self.by_user.get(user).map(String::as_str)
    }

    pub(in crate::cli) fn of_key(&self, key: &KeyId) -> Option<&str> {
        self.by_id.get(key).map(String::as_str)
    }

    /// The user as text for people: `key:lNct… (laptop)`.
    pub(super) fn shown(&self, user: &UserId) -> String {
        self.get(user).map_or_else(|| user.to_string(), |name| format!("{user} ({name})"))
    }
}

/// The user that an argument means: a user id, else a key without a user name, by the key's id or name. Any other text
/// is the id of a user without keys. `command` is what was typed before the user, for the advice.
pub(in crate::cli) async fn meant_user(
    store: &AdminStore,
    text: &str,
    command: &str,
) -> Result<UserId, CommandFailure> {
    let keys = store.oauth.keys().list().await?;
    if keys.iter().any(|key| key.user.as_str() == text) {
        return Ok(UserId::new(text));
    }
    let by_id: Vec<&ApiKey> = keys.iter().filter(|key| key.id.as_str() == text).collect();
    let by_name = || keys.iter().filter(|key| key.name == text).collect();
    let named: Vec<&ApiKey> = if by_id.is_empty() { by_name() } else { by_id };
    let mut users: Vec<&UserId> = named.iter().map(|key| &key.user).collect();
    users.sort();
    users.dedup();
    match users[..] {
        [] => Ok(UserId::new(text)),
        [user] if user.is_of_key() => Ok(user.clone()),
        [user] => Err(CommandFailure::usage(format!("the key {text} belongs to the user {user}"))
            .advise(format!("for the user with all keys: `lockkeeper {command} {user}`"))),
        _ => Err(CommandFailure::usage(format!(
            "{} keys have the name {text}, and they belong to several users",
            named.len()
        ))
        .advise("use the key's id: `lockkeeper keys list --all` shows it")),
    }
}

/// The key that a person means: by its id, or by a name that only one live key has. Any other text is returned as the
/// id of no key.
pub(super) async fn meant_key(store: &AdminStore, text: &str) -> Result<KeyId, CommandFailure> {
    let id = KeyId::new(text);
    if store.oauth.keys().find(&id).await?.is_some() {
        return Ok(id);
    }
    let now = store::now();
    let mut named = store.oauth.keys().list().await?;
    // a disabled user's keys too: they come back when the user is enabled
    named.retain(|key| key.name == text && key.revoked.is_none() && key.ends().is_none_or(|end| now < end));
    match &named[..] {
        [] => Ok(id),
        [only] => Ok(only.id.clone()),
        several => {
            let ids: Vec<&str> = several.iter().map(|key| key.id.as_str()).collect();
            Err(CommandFailure::usage(format!("{} keys have the name {text}", several.len()))
                .advise(format!("give the id of one: {}", ids.join(", "))))
        }
    }
}
