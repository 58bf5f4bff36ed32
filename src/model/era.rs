//! Protocol eras.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::support::{Digest, Timestamp};

/// Protocol era: which side keeps the session state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// An `initialize` handshake opens a session.
    Legacy,
    /// Every request is self-contained.
    Modern,
}

/// Detected era of a server (`translation` 2.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownEra {
    /// Identity of the server: [`super::TransportSpec::server`].
    pub server: Digest,
    /// Detected era.
    pub era: Era,
    /// Time of detection.
    pub found: Timestamp,
}

/// An era that may become known or change, read without a lock.
#[derive(Debug)]
pub struct EraCell(AtomicU8);

impl EraCell {
    const UNKNOWN: u8 = 0;
    const LEGACY: u8 = 1;
    const MODERN: u8 = 2;

    /// Creates a cell.
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

    /// Sets the era.
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
