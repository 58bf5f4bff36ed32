//! Return of freed memory to the system. The allocator keeps freed memory for a second. It looks for memory kept longer
//! only when large pieces are allocated or freed, which may never happen after a burst of large messages.

use std::{hint::black_box, time::Duration};

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Interval between allocations of a large piece.
const PAUSE: Duration = Duration::from_secs(1);
/// Size of a piece that makes the allocator look, in bytes. It is never written to, so it costs no memory.
const LARGE_PIECE: usize = 4 << 20;

/// Makes the allocator return unused memory regularly, until cancelled.
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
