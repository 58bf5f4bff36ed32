//! Rights as text. Knows nothing of keys.

use crate::model::{Access, AllowedBackends, Rights};

/// Rights, as lists show them.
pub(super) fn words(rights: &Rights) -> Vec<String> {
    let mut words = match &rights.backends {
        AllowedBackends::All => vec!["all servers".to_owned()],
        AllowedBackends::Only(backends) => backends
            .iter()
            .map(|(id, access)| if *access == Access::Full { id.clone() } else { format!("{id}:read") })
            .collect(),
    };
    words.extend(rights.admin.then(|| "admin".to_owned()));
    words
}
