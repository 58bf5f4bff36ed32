//! Clients of 2026-07-28 without sessions: every request stands alone and has one answer, and whoever closes the
//! answer cancels the request. Here is what is kept between requests and by whom: calls that wait for their client
//! ([`parks`]) and questions that wait for a call ([`strays`]), both bounded. What a server of the same version wants to have
//! back it gets from the client ([`seal`]).

mod early;
mod envelope;
mod held;
pub(super) mod kept;
mod leg;
mod listen;
mod parks;
mod request;
pub(super) mod seal;
mod strays;
mod users;
mod visits;

pub use self::seal::StateKey;
pub(super) use self::{
    envelope::{Envelope, is_around, unsupported},
    request::{Messages, Served, StatelessRequest},
};
