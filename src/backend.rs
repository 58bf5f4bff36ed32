//! Servers behind the gateway: each a `Server` made of a transport and an adapter. Knows nothing of clients' transports.
//!
//! A [`Supervisor`] holds them all. Each is supervised by itself: a base session, which the gateway holds for lists and
//! status, is started at once and started again when it is lost; sessions for clients are opened when they are needed
//! and ended when they are idle. No backend waits for another.

mod attempts;
mod background;
mod calls;
mod demo;
mod detect;
mod end;
mod era;
mod error;
mod health;
mod key;
mod legacy;
mod life;
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
mod supervise;
mod supervisor;
mod task_group;
mod task_listens;
mod transport;
mod wants;

pub use demo::Demo;
pub use error::StartError;
pub use question_slots::SlotLimits;
pub use supervisor::{Deps, Supervisor};
