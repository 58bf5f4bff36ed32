//! The opaque part of the address of a connect page (`UP-7`): it names, sealed, the user that it is for and what to ask
//! for. It opens nothing by itself: whoever visits the page logs in. Nothing is stored for it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::context::UpstreamContext;
use crate::model::{BackendId, UserId};

/// Time for which an address can be visited.
const LIFE: Duration = Duration::from_hours(1);

/// Content of a ticket.
#[derive(Serialize, Deserialize)]
struct Ticket {
    user: UserId,
    scope: Option<String>,
    expires: i64,
}

/// A ticket that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketRefusal {
    /// It is for another user.
    OtherUser,
    /// It has expired, or was not made here.
    Lapsed,
}

/// The address of the page on which `user` connects a server, with these scopes.
#[expect(clippy::expect_used, reason = "neither can fail for a ticket")]
pub(super) fn address(context: &UpstreamContext, user: &UserId, backend: &BackendId, scope: Option<String>) -> String {
    let page = format!("{}/connect/{backend}", context.issuer);
    let ticket = Ticket { user: user.clone(), scope, expires: (context.now() + LIFE).as_seconds() };
    let text = serde_json::to_vec(&ticket).expect("texts and numbers");
    let sealed = context.ticket_key.seal_text(&text, place(backend).as_bytes(), &*context.random);
    format!("{page}?t={}", sealed.expect("far below the 256 GiB of the cipher"))
}

/// The scopes of a ticket for this user and server.
pub(super) fn read(
    context: &UpstreamContext,
    user: &UserId,
    backend: &BackendId,
    text: &str,
) -> Result<Option<String>, TicketRefusal> {
    let opened = context.ticket_key.open_text(text, place(backend).as_bytes()).map_err(|_| TicketRefusal::Lapsed)?;
    let ticket: Ticket = serde_json::from_slice(&opened).map_err(|_| TicketRefusal::Lapsed)?;
    if ticket.user != *user {
        return Err(TicketRefusal::OtherUser);
    }
    if ticket.expires <= context.now().as_seconds() {
        return Err(TicketRefusal::Lapsed);
    }
    Ok(ticket.scope)
}

fn place(backend: &BackendId) -> String {
    format!("connect|{backend}")
}
