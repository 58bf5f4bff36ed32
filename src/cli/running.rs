//! Commands that run a gateway, and those that ask or steer the one that runs.

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
