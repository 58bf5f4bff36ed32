//! Finds the key that a person means by an id or a name.

use crate::{
    cli::{
        failure::CommandFailure,
        store::{self, AdminStore},
    },
    model::KeyId,
};

/// The key that a person means: by its id, or by a name that only one live key has. Any other text is returned as the
/// id of no key.
pub(super) async fn meant(text: &str, store: &AdminStore) -> Result<KeyId, CommandFailure> {
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
