//! What a check comes to, and how values are compared.

use std::{error::Error, fmt::Debug, time::Duration};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// What ends a hang.
const PATIENCE: Duration = Duration::from_mins(1);

pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A value of the SDK, written as it is on the wire.
pub fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a value of the SDK")
}

pub fn words(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub async fn within<T>(future: impl Future<Output = T>) -> Outcome<T> {
    tokio::time::timeout(PATIENCE, future).await.map_err(|_| format!("no answer within {PATIENCE:?}").into())
}

pub fn equal<T: PartialEq + Debug>(found: T, expected: T) -> Outcome {
    if found == expected { Ok(()) } else { Err(format!("expected {expected:?}\nfound    {found:?}").into()) }
}

pub fn contains(found: &str, part: &str) -> Outcome {
    if found.contains(part) { Ok(()) } else { Err(format!("expected {part:?}\nin       {found:?}").into()) }
}
