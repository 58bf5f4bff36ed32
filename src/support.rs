//! What every part may use: time, randomness, secrets and digests. Knows nothing of MCP, OAuth or HTTP.

pub mod clock;
pub mod digest;
pub mod random;
pub mod secret;

pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use digest::Digest;
pub use random::{OsRandom, Random, SeededRandom};
pub use secret::Secret;
