//! File descriptors: how many this process may open, and how many of them are for connections.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Maximum number of connections if none is configured, for any number of descriptors, because their buffers need
/// memory too.
pub const MAX_CONNECTIONS: usize = 16_384;

/// Descriptors reserved for the listener, the runtime, the logs, the store, refusals and the resolver.
const BASE: u64 = 128;

/// Descriptors needed by one worker's runtime.
const WORKER: u64 = 8;

/// The limit if the process may open fewer descriptors than are reserved.
const MIN_CONNECTIONS: u64 = 16;

/// Parts of the gateway that need descriptors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reserved {
    /// Number of processes that may run at once. Each needs three pipes and a handle.
    pub processes: usize,
    /// Threads that serve connections.
    pub workers: usize,
    pub outbound: Outbound,
}

/// Outbound connections of requests: each request to an HTTP server may open one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Outbound {
    #[default]
    None,
    /// Each request may need a second descriptor.
    PerRequest,
}

/// Raises the soft limit of open descriptors to the hard limit. Returns how many this process may open.
pub fn raise() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
    if soft >= hard || setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        return soft.max(hard);
    }
    tracing::warn!(soft, hard, "the limit on open descriptors cannot be raised");
    soft
}

/// The number of connections for `descriptors`. At most half of these are kept for backends, workers and the process
/// itself. If requests open outbound connections, the rest is halved.
pub fn connections(descriptors: u64, reserved: Reserved) -> usize {
    let processes = u64::try_from(reserved.processes).unwrap_or(u64::MAX).saturating_mul(4);
    let workers = u64::try_from(reserved.workers).unwrap_or(u64::MAX).saturating_mul(WORKER);
    let wanted = processes.saturating_add(workers).saturating_add(BASE);
    let kept = wanted.min(descriptors / 2);
    if kept < wanted {
        tracing::warn!(
            descriptors,
            wanted,
            "few descriptors for this configuration: raise the hard limit (ulimit -Hn, LimitNOFILE) or lower server_sessions"
        );
    }
    let left = descriptors.saturating_sub(kept);
    let left = match reserved.outbound {
        Outbound::None => left,
        Outbound::PerRequest => left / 2,
    };
    usize::try_from(left.max(MIN_CONNECTIONS)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_the_workers_and_the_children_have_theirs() {
        let of =
            |descriptors, processes, outbound| connections(descriptors, Reserved { processes, workers: 0, outbound });
        assert_eq!(of(1024, 0, Outbound::None), 896);
        assert_eq!(of(1024, 64, Outbound::None), 640);
        assert_eq!(of(1024, 64, Outbound::PerRequest), 320);
        assert_eq!(of(1024, 100_000, Outbound::None), 512, "half is kept back at most");
        assert_eq!(connections(1024, Reserved { workers: 16, ..Reserved::default() }), 768);
        assert_eq!(of(20, 64, Outbound::None), 16);
        assert!(of(u64::MAX, 64, Outbound::None) > MAX_CONNECTIONS);
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        let may_open = raise();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!((may_open, soft), (hard, hard));
    }
}
