//! In which manner a server is spoken to. Knows nothing of how it is found out.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::support::{Digest, Timestamp};

/// Who keeps the state of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// An `initialize` handshake opens a session.
    Legacy,
    /// Every request stands alone.
    Modern,
}

/// What was found out about the era of a server (`translation` 2.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownEra {
    /// Which server: [`super::TransportSpec::server`].
    pub server: Digest,
    /// Of which era it was.
    pub era: Era,
    /// When that was found out.
    pub found: Timestamp,
}

/// An era that is known at some time and may change, read without a lock.
#[derive(Debug)]
pub struct EraCell(AtomicU8);

impl EraCell {
    const UNKNOWN: u8 = 0;
    const LEGACY: u8 = 1;
    const MODERN: u8 = 2;

    /// A cell with this era.
    pub const fn new(era: Option<Era>) -> Self {
        Self(AtomicU8::new(match era {
            None => Self::UNKNOWN,
            Some(era) => Self::code(era),
        }))
    }

    /// The era; `None` if it is not known.
    pub fn get(&self) -> Option<Era> {
        match self.0.load(Ordering::Acquire) {
            Self::LEGACY => Some(Era::Legacy),
            Self::MODERN => Some(Era::Modern),
            _ => None,
        }
    }

    /// Changes it.
    pub fn set(&self, era: Era) {
        self.0.store(Self::code(era), Ordering::Release);
    }

    const fn code(era: Era) -> u8 {
        match era {
            Era::Legacy => Self::LEGACY,
            Era::Modern => Self::MODERN,
        }
    }
}
