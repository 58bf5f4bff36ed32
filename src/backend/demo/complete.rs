//! Completions of the demonstration backend, for the argument of its prompt and the variable of its template.

use serde_json::{Value, json};

use crate::mcp::{ErrorObject, Payload};

/// Names that it proposes.
const NAMES: [&str; 8] = ["Ada", "Alan", "Barbara", "Claude", "Edsger", "Grace", "Katherine", "Leonardo"];

/// The answer to `completion/complete`: the names with the given prefix.
pub(super) fn proposals(params: &Payload) -> Result<Value, ErrorObject> {
    #[derive(serde::Deserialize)]
    struct Complete {
        argument: Argument,
    }
    #[derive(serde::Deserialize)]
    struct Argument {
        name: String,
        value: String,
    }
    let complete: Complete = params.view().ok_or_else(|| ErrorObject::invalid_params("`argument` is missing"))?;
    let begun = complete.argument.value.to_lowercase();
    let values: Vec<&str> = match complete.argument.name.as_str() {
        "name" => NAMES.into_iter().filter(|name| name.to_lowercase().starts_with(&begun)).collect(),
        _ => Vec::new(),
    };
    Ok(json!({ "completion": { "total": values.len(), "hasMore": false, "values": values } }))
}
