//! The transport of one connection: that of its backend, with what the server is told of the caller. Knows nothing of how
//! connections are shared.

use super::{context::BackendContext, error::StartError};
use crate::model::{BackendSpec, CallerIdentity, IdentityForm, IdentityToken, TransportSpec};

/// The transport `to` for a connection of this caller; `None` is the gateway itself.
///
/// # Errors
///
/// If the server is to be told by a JWT, and this process cannot sign.
pub(super) fn of_caller(
    to: &TransportSpec,
    (spec, context): (&BackendSpec, &BackendContext),
    caller: Option<&CallerIdentity>,
) -> Result<TransportSpec, StartError> {
    // a server that moved elsewhere is told nothing there
    let Some(disclosure) = spec.disclosure.as_ref().filter(|_| to.server() == spec.transport.server()) else {
        return Ok(to.clone());
    };
    let gateway = CallerIdentity::gateway();
    let caller = caller.unwrap_or(&gateway);
    let statement = disclosure.identity.as_ref().and_then(|header| match &header.form {
        IdentityForm::Signed { audience } => Some((header.name.as_str(), audience.as_str())),
        IdentityForm::Plain => None,
    });
    let Some(statement) = statement else { return Ok(disclosure.applied(to.clone(), caller, None)) };
    let signer = context.signer.as_ref().ok_or_else(|| {
        StartError::Refused(
            "`identity = \"jwt\"` needs a gateway that has signing keys: start it with `lockkeeper serve`".to_owned(),
        )
    })?;
    let token = IdentityToken::new(statement, caller, signer, &context.clock);
    Ok(disclosure.applied(to.clone(), caller, Some(token)))
}
