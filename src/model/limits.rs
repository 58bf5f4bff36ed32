//! The limits and timeouts of the section `[limits]`.

use std::time::Duration;

use super::config_key::config_keys;

config_keys! {
    /// Limits and timeouts.
    pub struct LimitsConfig, taken at reload {
        /// A client session without a stream, a running call and a request is ended after this time.
        ///
        /// A client without sessions is shown in the status for as long.
        session_idle: Duration = duration(30 m, 1 m to 30 d);
        /// Bytes for everything in memory that waits: bodies and messages in transit, unread streams, cached lists.
        /// Without it: half of what the machine or the control group allows, at most 2 GiB.
        ///
        /// If it runs out, the holder furthest beyond its fair share gives way: all users and servers that hold
        /// something have equal shares.
        memory: Option<usize> = optional_size(512 MiB, 16 MiB to 1024 GiB);
        /// Client sessions in all.
        ///
        /// Beyond it, the user with the most gives way. An eighth is kept for users without any.
        sessions: usize = count(10_000, 1 to 1_000_000);
        /// Client sessions of one user, through all clients.
        sessions_per_user: usize = count(100, 1 to 1_000_000);
        /// Calls of one user that run at once, through all clients, with and without sessions.
        calls_per_user: usize = count(10_000, 1 to 1_000_000);
        /// Open `subscriptions/listen` of one user, through all clients; never more than half of `listens`.
        listens_per_user: usize = count(10_000, 1 to 1_000_000);
        /// Open `subscriptions/listen` of all users. Without it: three quarters of the limit of connections.
        listens: Option<usize> = optional_count(20_000, 1 to 1_000_000);
        /// Calls of one user's clients without sessions (2026-07-28) that wait for answers between two requests.
        suspended_calls_per_user: usize = count(4_096, 1 to 1_000_000);
        /// The same for all users.
        suspended_calls: usize = count(16_384, 1 to 1_000_000);
        /// Time for a client to answer a request of a server.
        server_request_timeout: Duration = duration(10 m, 1 s to 1 d);
        /// The same on a shared process, counted while a call waits and no process is free: then its user's oldest
        /// request gives way.
        ///
        /// At most `server_request_timeout`, even by default.
        server_request_slot_time: Duration = duration(30 s, 1 s to server_request_timeout);
        /// Time that a call waits for a shared process or a free session. Must be longer than
        /// `server_request_slot_time`; by default at least twice that.
        slot_wait: Duration = duration(120 s, 1 s to 1 d);
        /// Streams of calls are closed after this time for clients of 2025-11-25, which come back for the rest. Without
        /// it they stay open.
        stream_lifetime: Option<Duration> = optional_duration(5 m, 1 s to 1 d);
        /// Messages in one JSON-RPC batch (2025-03-26).
        batch: usize = count(100, 1 to 10_000);
        /// Bytes in the body of one request to an MCP endpoint.
        request_body: usize = size(16 MiB, 64 KiB to 1 GiB), least named ALLOWED_BODY;
        /// Sessions at one server; for a command, processes.
        ///
        /// Beyond it, the user with the most gives way. An eighth is kept for users without any.
        server_sessions: usize = count(64, 1 to 10_000);
        /// Processes that start at once, up to their handshake, each for 10 s at most; processes that a client waits
        /// for come first, each user's in turn. Without it: as many as cores, at least 4.
        ///
        /// One user never gets all of them: an eighth, at least one, is left for others.
        parallel_starts: Option<usize> = optional_count(4, 1 to 1_000);
        /// Characters in the name of a tool or prompt at `/mcp`.
        ///
        /// A longer name is cut and ends in 8 digits of its hash, always the same. Clients that prefix
        /// `mcp__lockkeeper__`, and may send 64, need `47`; `lockkeeper check` reports whether it matters. A change
        /// takes effect at the next start.
        tool_name_length: usize = count(64, 44 to 64) at restart;
        /// Client connections in all, as far as the limit on open files allows. Without it: as many as that allows, at
        /// most 16,384. A change takes effect at the next start.
        ///
        /// Beyond it, the user with the most gives way. An eighth is kept for users without any.
        connections: Option<usize> = optional_count(2_000, 16 to 1_000_000) at restart;
        /// Connections of one client address (IPv6: /64), and concurrent requests that a trusted proxy forwards for
        /// one.
        ///
        /// Loopback and trusted proxies are exempt.
        connections_per_address: usize = count(512, 1 to 1_000_000);
        /// Time for the head of a request.
        head_timeout: Duration = duration(30 s, 1 s to 10 m);
        /// Silence in a body that is being read, or in a message on a WebSocket; after the first such period, at least
        /// 1 KiB must come for each second.
        body_timeout: Duration = duration(30 s, 1 s to 10 m);
        /// Time that a connection stays open between two requests: longer than a proxy keeps idle connections, such as
        /// the ten minutes of Google's load balancers, so that it never sends a request on a closing one.
        keep_alive: Duration = duration(11 m, 1 s to 1 h);
        /// How long the gateway keeps serving after the signal to stop, while `/readyz` answers 503, so that a load
        /// balancer stops sending requests.
        shutdown_delay: Duration = duration(0 s, 0 s to 10 m);
        /// Time for running calls after that.
        shutdown: Duration = duration(10 s, 0 s to 10 m);
    }
}

impl LimitsConfig {
    /// Maximum number of open listens of all users, at a gateway with this maximum of client connections. Each holds a
    /// connection that is never evicted: a quarter is left for calls.
    pub fn all_listens(&self, connections: usize) -> usize {
        self.listens.unwrap_or(connections / 4 * 3)
    }
}
