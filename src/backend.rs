//! Servers behind the gateway: each a `Server` made of a transport and an adapter. Knows nothing of clients' transports.
//!
//! A [`Supervisor`] holds them all. Each is supervised by itself: a base session, which the gateway holds for lists and
//! status, is started at once and started again when it is lost; sessions for clients are opened when they are needed
//! and ended when they are idle. No backend waits for another.

mod attempts;
mod calls;
mod demo;
mod detect;
mod end;
mod era;
mod errands;
mod error;
mod extension;
mod health;
mod http;
mod jobs;
mod key;
mod legacy;
mod life;
mod link;
mod listens;
mod memory;
mod missed;
mod modern;
mod open;
mod pending;
mod pool;
mod question_slots;
mod reclaim;
mod served;
mod settings;
mod starting;
mod stateless;
mod stdio;
mod supervise;
mod supervisor;
mod wants;

pub use demo::Demo;
pub use error::StartError;
pub use question_slots::SlotLimits;
pub use supervisor::{Deps, Supervisor};
