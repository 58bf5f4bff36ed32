//! The authorization server, tested through its router and its service for the pages.

mod authorize;
mod discovery;
mod gate;
mod groups;
mod housekeeping;
mod keys;
mod library;
mod refresh;
mod refusals;
mod registration;
mod token;
mod users;
