//! Shared helpers: boxes, time, randomness, secrets, digests, signed tokens, rate limits, fair turns, work off the
//! workers, the memory budget, the silence of peers, the processes of the machine, maps, one-time values, printable
//! text, streams of bytes, pieces of buffers, a writer that never waits, the launcher of programs, and the context of
//! log events.

pub mod background_writer;
pub mod boxed;
pub mod byte_queue;
pub mod clock;
pub mod digest;
pub mod fair_turns;
pub mod fast_map;
pub mod fence;
pub mod gather;
pub mod jose;
pub mod latch;
pub mod launcher;
pub mod limits;
pub mod live;
pub mod log_context;
pub mod memory;
pub mod off_worker;
pub mod once;
#[cfg(target_os = "linux")]
pub mod orphans;
pub mod own_waker;
pub mod pace;
pub mod panics;
pub mod piece;
pub mod printable;
pub mod process_table;
pub mod random;
pub mod sealing;
pub mod secret;
pub mod silence;

pub use background_writer::BackgroundWriter;
pub use boxed::pin_in_box;
pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use digest::{Digest, DigestKey};
pub use fast_map::{FastHash, FastMap};
pub use fence::Fence;
pub use jose::CompactToken;
pub use latch::Latch;
pub use live::Live;
pub use memory::{Account, MemoryBudget};
pub use once::SpentDigests;
pub use printable::{first_names, pasted, printable, printable_name, printable_text};
pub use process_table::{ProcessIdentity, ProcessTable, ProcessUse, kernel_identity, own_memory};
pub use random::{OsRandom, Random, SeededRandom};
pub use sealing::{NotSealedHere, SealingKey};
pub use secret::Secret;
