//! The adapter of the four legacy versions: sessions that begin with `initialize`. Knows nothing of transports: it
//! speaks over a [`super::transport::Transport`].

pub(crate) mod belongings;
pub(crate) mod call;
pub(crate) mod handshake;
mod held;
mod leased;
pub(crate) mod question;
pub(crate) mod receive;
pub(crate) mod session;
mod unanswered;

pub(crate) use handshake::{Greeting, Offer};
pub(crate) use session::Session;
pub(crate) use unanswered::FINISH_TIMEOUT;
