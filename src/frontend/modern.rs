//! Clients of 2026-07-28 without sessions: every request stands alone and has one answer, and whoever closes the
//! answer cancels the request. Calls that wait for their client between two requests are not known here.

mod early;
mod envelope;
mod exchange;
pub(super) mod kept;
mod listen;
mod request;
mod users;
mod visits;

pub(super) use self::{
    envelope::{Envelope, is_around, unsupported},
    request::{Messages, Served, StatelessRequest},
};
