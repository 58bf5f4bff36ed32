//! The integration tests, in one binary. Each file is named after the module that it tests.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on says so by panicking")]

mod app;
mod backend;
mod cli;
mod config;
mod doctor;
mod faults;
mod fetch;
mod frontend;
mod fuzz;
mod gateway;
mod kit;
mod matrix;
mod oauth;
mod oauth_client;
mod scale;
mod storage;
mod support;
mod tidy;
mod translate;
mod upstream;
mod vectors;
mod web;
