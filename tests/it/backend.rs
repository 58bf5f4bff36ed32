//! The `backend` room, from outside.

mod calls;
mod demo;
mod http;
mod peers;
mod starts;
mod stdio;
