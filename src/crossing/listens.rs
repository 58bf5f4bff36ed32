//! Levels and subscriptions between sides that keep them differently (`translation` 3.4 LOG, 4d): a session keeps both for
//! as long as it lasts, while a request of 2026-07-28 says its own level and listens for as long as it runs. Knows nothing of
//! who shares a connection.

mod client_subscriptions;
mod over_requests;
mod over_session;

pub(super) use self::{
    client_subscriptions::{ClientSubscriptions, Ended},
    over_requests::SessionOverRequests,
    over_session::RequestsOverSession,
};
