//! The section `[limits]`: limits and timeouts. Knows nothing of their enforcement.

use std::{num::NonZero, thread, time::Duration};

use super::section::Section;

/// Limits and timeouts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitsConfig {
    /// `session_idle`: life of a client session without a stream or a running call, 1 minute to 30 days.
    pub session_idle: Duration,
    /// `sessions`: total client sessions, 1 to 1,000,000.
    pub sessions: usize,
    /// `sessions_per_caller`: client sessions of one caller, 1 to 1,000,000.
    pub sessions_per_caller: usize,
    /// `calls_per_session`: concurrent calls of one client session, 1 to 100,000.
    pub calls_per_session: usize,
    /// `calls_per_user`: concurrent requests of one user's clients without sessions (2026-07-28), 1 to 1,000,000.
    pub calls_per_user: usize,
    /// `listens_per_user`: open `subscriptions/listen` of one user, 1 to 1,000,000. At most half of `listens`.
    pub listens_per_user: usize,
    /// `listens`: open `subscriptions/listen` of all users, 1 to 1,000,000; default: three quarters of the connection
    /// limit, since each uses one.
    pub listens: Option<usize>,
    /// `suspended_calls_per_user`: suspended calls of one user's clients without sessions, 1 to 1,000,000.
    pub suspended_calls_per_user: usize,
    /// `suspended_calls`: suspended calls of all users, 1 to 1,000,000.
    pub suspended_calls: usize,
    /// `question_timeout`: time for a client to answer a request of a server, 1 second to 24 hours.
    pub question_timeout: Duration,
    /// `question_slot_time`: the same while other calls wait for the shared process, 1 second to `question_timeout`;
    /// default: 60 seconds, or `question_timeout` if shorter.
    pub question_slot_time: Duration,
    /// `slot_wait`: time that a call waits for a shared process, longer than `question_slot_time`, up to 24 hours;
    /// default: 120 seconds, or twice `question_slot_time` if longer.
    pub slot_wait: Duration,
    /// `stream_lifetime`: life of the stream of one call toward clients of 2025-11-25 alone, which reconnect for
    /// the rest, 1 second to 24 hours; unlimited if not set.
    pub stream_lifetime: Option<Duration>,
    /// `batch`: messages in one JSON-RPC batch (2025-03-26), 1 to 10,000.
    pub batch: usize,
    /// `request_body`: maximum body of one request to `/mcp`, 64 KiB to 1 GiB.
    pub request_body: usize,
    /// `backend_sessions`: sessions (of a stdio backend: processes) at one backend, 1 to 10,000.
    pub backend_sessions: usize,
    /// `parallel_starts`: processes that start at once, 1 to 1,000; default: as many as cores, at least 4.
    pub parallel_starts: Option<usize>,
    /// `tool_name_length`: characters of a name of a tool or prompt at `/mcp`, 44 to 64; longer ones are shortened.
    pub tool_name_length: usize,
    /// `connections`: total connections, 16 to 1,000,000, limited by the descriptors of the process; default: as many
    /// as they allow, at most 16,384.
    pub connections: Option<usize>,
    /// `connections_per_address`: connections of one client address, and concurrent requests that a trusted proxy
    /// forwards for one, 1 to 1,000,000.
    pub connections_per_address: usize,
    /// `head_timeout`: time for the head of a request, 1 second to 10 minutes.
    pub head_timeout: Duration,
    /// `body_timeout`: time without data in a request body, 1 second to 10 minutes; after that time, the body must
    /// arrive at 1 KiB per second or faster.
    pub body_timeout: Duration,
    /// `keep_alive`: life of an idle connection, 1 second to 1 hour.
    pub keep_alive: Duration,
    /// `shutdown_delay`: time in which the gateway serves on after the signal to stop, but is not ready, 0 s to 10 minutes.
    pub shutdown_delay: Duration,
    /// `shutdown`: time for running calls after that, 0 s to 10 minutes.
    pub shutdown: Duration,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            session_idle: Duration::from_mins(30),
            sessions: 10_000,
            sessions_per_caller: 100,
            calls_per_session: 256,
            calls_per_user: 10_000,
            listens_per_user: 10_000,
            listens: None,
            suspended_calls_per_user: 4_096,
            suspended_calls: 16_384,
            question_timeout: Duration::from_mins(10),
            question_slot_time: Duration::from_mins(1),
            slot_wait: Duration::from_mins(2),
            stream_lifetime: None,
            batch: 100,
            request_body: 16 << 20,
            backend_sessions: 64,
            parallel_starts: None,
            tool_name_length: 64,
            connections: None,
            connections_per_address: 512,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_mins(5),
            shutdown_delay: Duration::ZERO,
            shutdown: Duration::from_secs(10),
        }
    }
}

impl LimitsConfig {
    /// The maximum number of processes that start at once: at least four by default, since most of a start is waiting.
    pub fn starts_at_once(&self) -> usize {
        self.parallel_starts.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get).max(4))
    }

    /// Reads the section; reports invalid values and uses their defaults.
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        let mut many = |name: &'static str| section.count(name, 1..=1_000_000);
        let (calls_per_user, listens_per_user, listens) =
            (many("calls_per_user"), many("listens_per_user"), many("listens"));
        let (suspended_calls_per_user, suspended_calls) = (many("suspended_calls_per_user"), many("suspended_calls"));
        let (second, minute, day) = (Duration::from_secs(1), Duration::from_mins(1), Duration::from_hours(24));
        let question_timeout = section.duration("question_timeout", second..=day).unwrap_or(default.question_timeout);
        let question_slot_time = section.duration("question_slot_time", second..=question_timeout);
        let question_slot_time = question_slot_time.unwrap_or(default.question_slot_time.min(question_timeout));
        let slot_wait = section.duration("slot_wait", second..=day);
        if slot_wait.is_some_and(|wait| wait <= question_slot_time) {
            section.fault(
                "`slot_wait` must be longer than `question_slot_time`: calls would end before they can get a process",
                Some("raise `slot_wait`, or lower `question_slot_time`"),
            );
        }
        Self {
            session_idle: section.duration("session_idle", minute..=minute * 43_200).unwrap_or(default.session_idle),
            sessions: section.count("sessions", 1..=1_000_000).unwrap_or(default.sessions),
            sessions_per_caller: section
                .count("sessions_per_caller", 1..=1_000_000)
                .unwrap_or(default.sessions_per_caller),
            calls_per_session: section.count("calls_per_session", 1..=100_000).unwrap_or(default.calls_per_session),
            question_timeout,
            question_slot_time,
            slot_wait: slot_wait.unwrap_or(default.slot_wait.max(question_slot_time * 2)),
            calls_per_user: calls_per_user.unwrap_or(default.calls_per_user),
            listens_per_user: listens_per_user.unwrap_or(default.listens_per_user),
            listens,
            suspended_calls_per_user: suspended_calls_per_user.unwrap_or(default.suspended_calls_per_user),
            suspended_calls: suspended_calls.unwrap_or(default.suspended_calls),
            stream_lifetime: section.duration("stream_lifetime", second..=day),
            batch: section.count("batch", 1..=10_000).unwrap_or(default.batch),
            request_body: section.size("request_body", 64 << 10..=1 << 30).unwrap_or(default.request_body),
            backend_sessions: section.count("backend_sessions", 1..=10_000).unwrap_or(default.backend_sessions),
            parallel_starts: section.count("parallel_starts", 1..=1_000),
            tool_name_length: section.count("tool_name_length", 44..=64).unwrap_or(default.tool_name_length),
            connections: section.count("connections", 16..=1_000_000),
            connections_per_address: section
                .count("connections_per_address", 1..=1_000_000)
                .unwrap_or(default.connections_per_address),
            head_timeout: section.duration("head_timeout", second..=minute * 10).unwrap_or(default.head_timeout),
            body_timeout: section.duration("body_timeout", second..=minute * 10).unwrap_or(default.body_timeout),
            keep_alive: section.duration("keep_alive", second..=minute * 60).unwrap_or(default.keep_alive),
            shutdown_delay: section
                .duration("shutdown_delay", Duration::ZERO..=minute * 10)
                .unwrap_or(default.shutdown_delay),
            shutdown: section.duration("shutdown", Duration::ZERO..=minute * 10).unwrap_or(default.shutdown),
        }
    }
}
