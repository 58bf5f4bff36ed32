//! The authorization server from outside: through its router, and through what the pages call.

mod authorize;
mod discovery;
mod gate;
mod housekeeping;
mod keys;
mod library;
mod refresh;
mod refusals;
mod registration;
mod token;
mod users;
