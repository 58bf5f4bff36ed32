//! Freed memory, returned to the system. The allocator keeps what was freed for a second, and looks for what it has kept longer
//! only when large pieces come and go: after a burst of large messages that may never happen.

use std::{hint::black_box, time::Duration};

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// The size in bytes of a piece that makes the allocator look. It is not touched, so it costs no memory.
const LARGE_PIECE: usize = 4 << 20;

/// Has the allocator return what it no longer needs, until it is cancelled.
pub(super) async fn return_to_system(cancel: CancellationToken) {
    let mut looks = interval(PAUSE);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let looking = async {
        loop {
            looks.tick().await;
            drop(black_box(Vec::<u8>::with_capacity(LARGE_PIECE)));
        }
    };
    cancel.run_until_cancelled(looking).await;
}
