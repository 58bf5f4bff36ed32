//! The `gateway` room, from outside.

mod calls;
mod extension;
mod listens;
mod lists;
mod mirrors;
mod modern;
mod script;
mod told;
mod versions;
