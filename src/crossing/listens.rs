//! Log levels and subscriptions between sides that differ in era (`translation` 3.4 LOG, 4d): a session keeps both as
//! long as it lasts; a request of 2026-07-28 carries its own level, and listens as long as it runs. Knows nothing of
//! sharing.

mod client_subscriptions;
mod over_requests;
mod over_session;

pub(super) use self::{
    client_subscriptions::{ClientSubscriptions, Ended},
    over_requests::SessionOverRequests,
    over_session::RequestsOverSession,
};
