//! The integration tests, in one binary. Each file is named after the room that it tests from outside.

mod backend;
mod config;
mod frontend;
mod gateway;
mod oauth;
mod support;
mod tidy;
mod web;
