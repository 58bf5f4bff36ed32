//! Why a ready server lists nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::support::printable_name;

/// Maximum length of a text about a list, from a server or the gateway, in characters.
const MAX_REASON: usize = 400;

/// Why the gateway sees no entry in a list of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "kebab-case")]
pub enum EmptyList {
    /// The server does not declare the capability.
    Undeclared { capability: String },
    /// The server has not answered yet.
    Silent {
        /// Seconds since the request.
        seconds: u64,
    },
    /// The server answered with an error.
    Refused {
        /// Its text, and its code.
        error: String,
    },
    /// The gateway got no answer.
    NotFetched { reason: String },
    /// The answer has no list.
    Malformed,
    /// Every entry breaks the schema.
    LeftOut { entries: usize },
    /// The rules of the configuration leave no tools.
    NoneOffered,
    /// The server lists nothing.
    Nothing,
    /// Each user has to log in, or to enter a secret, and has a list of its own.
    AwaitsLogin,
}

// === impl EmptyList ===

impl EmptyList {
    /// A list that the server answered with this error.
    pub fn refused(error: &impl fmt::Display) -> Self {
        Self::Refused { error: printable_name(&error.to_string(), MAX_REASON) }
    }

    /// A list that could not be fetched, for this reason.
    pub fn not_fetched(reason: &str) -> Self {
        Self::NotFetched { reason: printable_name(reason, MAX_REASON) }
    }
}

impl fmt::Display for EmptyList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undeclared { capability } => write!(f, "the server does not declare the capability `{capability}`"),
            Self::Silent { seconds } => {
                write!(f, "the server was asked for its list {seconds} s ago, and has not answered")
            }
            Self::Refused { error } => write!(f, "the server answers the request for its list with an error: {error}"),
            Self::NotFetched { reason } => write!(f, "its list could not be fetched: {reason}"),
            Self::Malformed => {
                f.write_str("the server answers the request for its list with something that is no list")
            }
            Self::LeftOut { entries } => {
                write!(f, "all {entries} entries of its list are left out, since clients would reject them")
            }
            Self::NoneOffered => {
                f.write_str("its list is empty, or the rules in `tools` of its section leave nothing of it")
            }
            Self::Nothing => f.write_str("its list is empty"),
            Self::AwaitsLogin => f.write_str("each user connects it on a page of the gateway; their tools appear then"),
        }
    }
}
