//! Commands that run a gateway, and commands that ask or steer the running one. Commands of other folders reach it with
//! the client here.

pub mod connect;
pub(super) mod containment;
pub mod gateway_client;
pub mod healthcheck;
pub mod log;
pub mod logs;
pub mod restart;
pub(super) mod running_gateway;
pub mod serve;
pub mod status;
pub mod stdio;
