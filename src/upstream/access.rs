//! Access to servers, for those who connect to them: a server with the user's token, or the page where the user logs in.
//! Knows nothing of connections.

use std::sync::Arc;

use super::{context::UpstreamContext, keepers::Keepers, ticket};
use crate::model::{AccessPage, BackendSpec, ServerAccess, UserId};

/// The access that these keepers give.
pub(super) fn server_access(context: &UpstreamContext, keepers: &Arc<Keepers>) -> ServerAccess {
    let of_users = Arc::clone(keepers);
    let of_gateway = Arc::clone(keepers);
    let (pages, wanted) = (context.clone(), Arc::clone(keepers));
    ServerAccess::new(
        move |user, spec| {
            let keepers = Arc::clone(&of_users);
            Box::pin(async move { of_user(&keepers, &user, &spec).await })
        },
        move |spec| of_gateway.of_gateway(spec),
        move |user, backend| {
            let scope = wanted.wanted(user, backend);
            let message = match &scope {
                None => format!("{backend} asks for a login of its own: connect your account there."),
                Some(_) => format!("{backend} asks for further permissions: connect your account there again."),
            };
            AccessPage { url: ticket::address(&pages, user, backend, scope), message }
        },
        context.changes.clone(),
    )
}

async fn of_user(keepers: &Arc<Keepers>, user: &UserId, spec: &BackendSpec) -> Result<Option<BackendSpec>, String> {
    let opened = keepers.open(user, spec).await.map_err(|error| {
        tracing::error!(%error, backend = %spec.id, "a user's access to a server cannot be read");
        "the gateway cannot read the user's tokens".to_owned()
    })?;
    let Some(bearer) = opened else { return Ok(None) };
    Ok(Some(BackendSpec { transport: spec.transport.clone().with_bearer(bearer), ..spec.clone() }))
}
