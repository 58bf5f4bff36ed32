//! What the tests share.

pub(crate) mod oauth;
pub(crate) mod strict;
