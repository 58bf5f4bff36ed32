//! The ticket in the address of a connect page (`UP-7`): the user and the scopes to request, sealed. It grants nothing
//! by itself, since visitors of the page must log in. Nothing is stored for it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::context::UpstreamContext;
use crate::{
    model::{BackendId, UserId},
    storage::StorageError,
};

/// Time that an address is valid.
const LIFE: Duration = Duration::from_hours(1);

#[derive(Serialize, Deserialize)]
struct Ticket {
    user: UserId,
    scope: Option<String>,
    expires: i64,
}

/// Reason why a ticket cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketRefusal {
    /// It is for another user.
    OtherUser,
    /// It has expired, or was not made here.
    Lapsed,
}

/// The address of the page where `user` connects a server, with these scopes.
#[expect(clippy::expect_used, reason = "neither can fail for a ticket")]
pub(super) fn address(context: &UpstreamContext, user: &UserId, backend: &BackendId, scope: Option<String>) -> String {
    let page = format!("{}/connect/{backend}", context.issuer);
    let ticket = Ticket { user: user.clone(), scope, expires: (context.now() + LIFE).as_seconds() };
    let text = serde_json::to_vec(&ticket).expect("texts and numbers");
    let sealed = context.ticket_key.seal_text(&text, place(backend).as_bytes(), &*context.random);
    format!("{page}?t={}", sealed.expect("far below the 256 GiB of the cipher"))
}

/// The scopes of a ticket for this user and server. A ticket for an earlier user with this name counts as expired.
pub(super) async fn read(
    context: &UpstreamContext,
    user: &UserId,
    backend: &BackendId,
    text: &str,
) -> Result<Result<Option<String>, TicketRefusal>, StorageError> {
    let opened = context.ticket_key.open_text(text, place(backend).as_bytes());
    let Some(ticket) = opened.ok().and_then(|opened| serde_json::from_slice::<Ticket>(&opened).ok()) else {
        return Ok(Err(TicketRefusal::Lapsed));
    };
    if ticket.user != *user {
        return Ok(Err(TicketRefusal::OtherUser));
    }
    let (ends, created) = (ticket.expires, context.storage.users().created(user).await?);
    let is_earlier = created.is_some_and(|created| ends < (created + LIFE).as_seconds());
    if is_earlier || ends <= context.now().as_seconds() {
        return Ok(Err(TicketRefusal::Lapsed));
    }
    Ok(Ok(ticket.scope))
}

fn place(backend: &BackendId) -> String {
    format!("connect|{backend}")
}
