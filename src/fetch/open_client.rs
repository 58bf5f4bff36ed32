//! HTTP client for URLs that the person who runs this program chose: without the guard. Knows nothing of the requests.

use std::time::Duration;

use super::tls::{self, TlsSetupError};
use crate::model::NetworkSpec;

/// Maximum idle time of a connection: less than the 5 s after which common servers close it; a request sent then is lost.
const MAX_IDLE: Duration = Duration::from_secs(3);

/// Failure to set up a client.
#[derive(Debug, thiserror::Error)]
pub enum ClientSetupError {
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsSetupError),
    /// The settings cannot be used, for instance a malformed proxy in the environment.
    #[error(transparent)]
    Http(#[from] reqwest::Error),
}

/// A client with the settings of `configure`. It trusts the authorities of the system; on a machine without any it is
/// refused only what shows a certificate.
///
/// # Errors
///
/// If TLS or the client cannot be set up.
pub fn client(
    configure: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
) -> Result<reqwest::Client, ClientSetupError> {
    let tls = tls::client_config(&NetworkSpec::default())?;
    let client = reqwest::Client::builder().tls_backend_preconfigured(tls).pool_idle_timeout(MAX_IDLE);
    Ok(configure(client).build()?)
}
