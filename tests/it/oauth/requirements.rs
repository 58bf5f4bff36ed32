//! Requirements by number (`docs/authorization.md`): one request, and its exact answer. What takes more than that is tested
//! beside the subject, under its number too.

mod authorization;
mod discovery;
mod gate;
mod registration;
mod tokens;
