//! Every metric: its kind, its labels, and what it says. `docs/operations.md` has the same tables, written from these.
//!
//! No label has a value that a client chooses, so that nobody can make the tables of a scraper grow.

use std::fmt::Write as _;

/// Metrics of one subject.
#[derive(Debug, Clone, Copy)]
pub struct MetricGroup {
    /// The heading of its table.
    pub title: &'static str,
    /// The metrics.
    pub metrics: &'static [DescribedMetric],
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct DescribedMetric {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// Its labels.
    pub labels: &'static [MetricLabel],
    /// The meaning of its value.
    pub meaning: &'static str,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A sum that grows until the process ends.
    Counter,
    /// A value of this moment.
    Gauge,
    /// Number of measurements in each bucket of sizes.
    Histogram,
}

/// A label of a metric.
#[derive(Debug, Clone, Copy)]
pub struct MetricLabel {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub values: LabelValues,
}

/// The values of a label.
#[derive(Debug, Clone, Copy)]
pub enum LabelValues {
    /// The names of servers in the configuration.
    Servers,
    /// These. Their counters begin at zero.
    Fixed(&'static [&'static str]),
    /// Words that the program knows, too many to begin with; the counters of `first` begin at zero.
    Known {
        /// A description of the words, as `docs/operations.md` shows it.
        of: &'static str,
        /// Those of which one expects some.
        first: &'static [&'static str],
    },
}

/// The metrics of `/metrics`.
pub const METRICS: &[MetricGroup] = &[
    MetricGroup {
        title: "HTTP and connections",
        metrics: &[
            counter(
                "lockkeeper_http_requests_total",
                &[fixed("class", &["1xx", "2xx", "3xx", "4xx", "5xx"])],
                "requests answered",
            ),
            counter(
                "lockkeeper_http_refusals_unlogged_total",
                &[],
                "refused requests without a line in the log, since too many were refused",
            ),
            gauge("lockkeeper_connections", &[], "open client connections"),
            counter(
                "lockkeeper_connections_refused_total",
                &[fixed("reason", &["full", "address"])],
                "connections refused with 503, or with 429 because of their address",
            ),
            counter(
                "lockkeeper_connections_evicted_total",
                &[known("state", "of a connection")],
                "connections closed to make room, by the state they were in",
            ),
            counter(
                "lockkeeper_connections_ended_total",
                &[fixed(
                    "reason",
                    &["head_timeout", "body_timeout", "idle_timeout", "write_timeout", "control_frames", "memory"],
                )],
                "connections closed by a timeout; `control_frames`: WebSockets with too many pings and pongs; \
                 `memory`: WebSockets with a message too large for the free memory",
            ),
            gauge(
                "lockkeeper_certificate_expires_seconds",
                &[],
                "end of the certificate that clients see, in seconds since 1970",
            ),
            counter(
                "lockkeeper_certificate_orders_total",
                &[fixed("outcome", &["issued", "failed"])],
                "orders for a certificate",
            ),
            counter(
                "lockkeeper_tls_handshakes_failed_total",
                &[fixed("reason", &["handshake", "no_tls"])],
                "TLS handshakes that failed; `no_tls`: the client spoke something else",
            ),
            counter(
                "lockkeeper_connections_moved_total",
                &[],
                "connections moved to another thread because the first was busy",
            ),
            counter("lockkeeper_accept_errors_total", &[], "accepts that failed, for example for lack of open files"),
            counter("lockkeeper_panics_total", &[], "handlers that panicked: a bug, please report it"),
            counter("lockkeeper_log_lines_dropped_total", &[], "log lines dropped because their reader was too slow"),
        ],
    },
    MetricGroup {
        title: "Replicas",
        metrics: &[
            counter(
                "lockkeeper_replica_hops_total",
                &[fixed("outcome", &["answered", "lost", "forgotten", "not_found"])],
                "requests forwarded to the replica that has their session or server: `answered`, `lost` (it was gone \
                 before it answered), `forgotten` (it did not take the request, and there was no memory to keep it \
                 for another), `not_found` (no replica had it within 12 s; a minute for the home)",
            ),
            counter("lockkeeper_replicas_deposed_total", &[], "replicas that this one found with an expired lease"),
            gauge(
                "lockkeeper_clock_difference_seconds",
                &[],
                "how far the clock of this machine is ahead of the database's; negative if it is behind",
            ),
            counter(
                "lockkeeper_replica_strangers_total",
                &[],
                "connections to the replicas' port without a replica's key",
            ),
            counter("lockkeeper_sessions_succeeded_total", &[], "sessions taken over from replicas that are gone"),
        ],
    },
    MetricGroup {
        title: "Authorization",
        metrics: &[
            counter(
                "lockkeeper_gate_refusals_total",
                &[fixed(
                    "error",
                    &[
                        "unauthorized",
                        "invalid_token",
                        "invalid_request",
                        "insufficient_scope",
                        "access_denied",
                        "not_found",
                        "temporarily_unavailable",
                    ],
                )],
                "requests refused at MCP endpoints",
            ),
            counter("lockkeeper_key_refusals_total", &[], "wrong API keys, at the login and as credentials"),
            counter(
                "lockkeeper_oauth_refusals_total",
                &[known("error", "of OAuth")],
                "refused requests to token, registration and revocation endpoints",
            ),
            counter(
                "lockkeeper_tokens_issued_total",
                &[MetricLabel {
                    name: "grant_type",
                    values: LabelValues::Known {
                        of: "of OAuth",
                        first: &["authorization_code", "refresh_token", "client_credentials"],
                    },
                }],
                "access tokens issued",
            ),
            counter(
                "lockkeeper_audit_events_counted_total",
                &[known("event", "of the audit trail")],
                "audit events without a row and a line of their own, because one user or strangers caused too many",
            ),
        ],
    },
    MetricGroup {
        title: "Clients",
        metrics: &[
            gauge("lockkeeper_frontend_sessions", &[], "client sessions in memory"),
            counter("lockkeeper_frontend_sessions_ended_total", &[], "client sessions that ended"),
            counter(
                "lockkeeper_frontend_limited_total",
                &[fixed(
                    "limit",
                    &["calls_per_user", "listens", "listens_per_user", "suspended_calls", "suspended_calls_per_user"],
                )],
                "requests refused by this key of `[limits]`",
            ),
            counter(
                "lockkeeper_frontend_calls_detached_total",
                &[],
                "calls that continued after their client disconnected",
            ),
            counter("lockkeeper_frontend_resumed_streams_total", &[], "streams resumed by `Last-Event-ID`"),
            counter(
                "lockkeeper_frontend_slow_streams_closed_total",
                &[],
                "streams closed because their reader was too slow",
            ),
            counter("lockkeeper_frontend_messages_dropped_total", &[], "messages dropped from full queues of streams"),
            counter(
                "lockkeeper_frontend_notifications_dropped_total",
                &[],
                "notifications of servers that their request did not ask for, or that its client cannot read since it \
                 accepts only JSON; and notifications of clients beyond `calls_per_user`",
            ),
            counter(
                "lockkeeper_frontend_rounds_total",
                &[],
                "rounds of calls that servers of 2026-07-28 ended with requests",
            ),
            counter(
                "lockkeeper_frontend_questions_refused_total",
                &[],
                "server requests that the client could not get",
            ),
            counter(
                "lockkeeper_frontend_questions_expired_total",
                &[],
                "server requests that the client did not answer in time",
            ),
            counter("lockkeeper_frontend_stray_answers_total", &[], "client answers without a matching request"),
            counter("lockkeeper_frontend_stray_progress_total", &[], "client progress without a matching request"),
            counter(
                "lockkeeper_frontend_ambiguous_cancels_total",
                &[],
                "cancellations that named several running calls and cancelled none",
            ),
            counter("lockkeeper_progress_dropped_total", &[], "client progress that a server did not read in time"),
        ],
    },
    MetricGroup {
        title: "Memory and process",
        metrics: &[
            gauge(
                "lockkeeper_memory_held_bytes",
                &[fixed("holder", &["process", "server", "user", "address"])],
                "memory of waiting data, by kind of holder: bodies, messages, unread streams, cached lists",
            ),
            gauge("lockkeeper_memory_budget_bytes", &[], "`limits.memory`"),
            counter("lockkeeper_memory_refused_total", &[], "messages, bodies and calls refused for lack of memory"),
            counter(
                "lockkeeper_memory_reclaimed_total",
                &[fixed("what", &["replay", "lists", "notifications", "streams", "calls"])],
                "times that a holder above its share had to free memory",
            ),
            gauge(
                "lockkeeper_build_info",
                &[known("version", "of the gateway"), known("target", "processor and system")],
                "1, for the running program",
            ),
            counter("process_cpu_seconds_total", &[], "time of processors that the gateway used, without its programs"),
            gauge("process_resident_memory_bytes", &[], "memory of the gateway, without its programs"),
            gauge("process_open_fds", &[], "open files and connections"),
            gauge("process_max_fds", &[], "how many may be open"),
            gauge("process_start_time_seconds", &[], "start of the process, in seconds since 1970"),
        ],
    },
    MetricGroup {
        title: "Servers",
        metrics: &[
            gauge(
                "lockkeeper_server_up",
                &[SERVER],
                "1 if the server can be called, 0 while it starts or fails. If it is started for each user: 0 if all \
                 that run fail. Absent at a replica that is not its home",
            ),
            gauge("lockkeeper_server_calls_in_flight", &[SERVER], "calls that run at the server or wait for it"),
            counter("lockkeeper_server_calls_total", &[SERVER, METHOD, OUTCOME], "calls at a server, by their end"),
            DescribedMetric {
                name: "lockkeeper_server_call_duration_seconds",
                kind: MetricKind::Histogram,
                labels: &[SERVER, METHOD, OUTCOME],
                meaning: "time from the call to its end, with the wait for the server and for answers of the client",
            },
            gauge(
                "lockkeeper_server_protection",
                &[SERVER, fixed("protection", &["processes", "data_folder", "no_new_privileges"])],
                "1 if the protection holds for the program started last, else 0",
            ),
            counter(
                "lockkeeper_server_starts_total",
                &[SERVER, fixed("outcome", &["ok", "error"])],
                "starts of the base connection",
            ),
            counter(
                "lockkeeper_server_restarts_total",
                &[SERVER],
                "starts of the base connection after the first: after a loss, a failed start or a change of era",
            ),
            counter(
                "lockkeeper_catalog_fetches_total",
                &[SERVER, fixed("outcome", &["ok", "failed"])],
                "lists and descriptions fetched from a server",
            ),
            counter(
                "lockkeeper_gateway_left_out_total",
                &[SERVER, fixed("kind", &["tools", "prompts", "resources", "resourceTemplates"])],
                "entries of lists that break the schema and are not shown",
            ),
            counter(
                "lockkeeper_gateway_unknown_names_total",
                &[],
                "calls of tools and prompts that do not exist for their caller",
            ),
            counter(
                "lockkeeper_gateway_leg_faults_total",
                &[SERVER],
                "calls that a server of 2026-07-28 refused because of what the gateway adds: headers, version, or the \
                 form of the message",
            ),
            counter("lockkeeper_gateway_results_cut_total", &[SERVER], "tool results longer than `result_size`"),
            counter(
                "lockkeeper_gateway_notifications_dropped_total",
                &[],
                "notifications dropped before a listen was acknowledged, and client notifications that no server gets",
            ),
            counter(
                "lockkeeper_gateway_task_messages_dropped_total",
                &[],
                "messages about tasks of unknown owner, dropped at a listen",
            ),
            counter(
                "lockkeeper_gateway_task_searches_limited_total",
                &[],
                "searches for task owners that were not made, because a caller guessed too often",
            ),
            counter(
                "lockkeeper_untranslatable_total",
                &[SERVER, known("feature", ""), known("from", "a version"), known("to", "a version")],
                "messages that were not delivered: the receiver's version has no form for them, or the client did not \
                 declare what they need",
            ),
            counter(
                "lockkeeper_server_notifications_dropped_total",
                &[],
                "notifications dropped because a reader was too slow, or its side has no form for them",
            ),
            counter("lockkeeper_server_unattributed_total", &[], "notifications that belong to no call and no client"),
            counter(
                "lockkeeper_server_requests_ignored_total",
                &[SERVER],
                "requests of servers of 2026-07-28, which may send none",
            ),
            counter("lockkeeper_server_stray_answers_total", &[], "server answers without a matching request"),
            counter(
                "lockkeeper_server_answers_dropped_total",
                &[],
                "answers and cancellations that a server did not read in time",
            ),
            counter(
                "lockkeeper_server_requests_closed_total",
                &[],
                "server requests closed because other calls waited for the process",
            ),
            counter(
                "lockkeeper_server_tasks_forgotten_total",
                &[],
                "cached task states displaced by newer ones of the same owner",
            ),
        ],
    },
];

const SERVER: MetricLabel = MetricLabel { name: "server", values: LabelValues::Servers };

const METHOD: MetricLabel = MetricLabel {
    name: "method",
    values: LabelValues::Known { of: "of MCP and its extensions; any other is `other`", first: &["tools/call"] },
};

const OUTCOME: MetricLabel = fixed("outcome", &["ok", "error", "lost", "unavailable"]);

const fn counter(name: &'static str, labels: &'static [MetricLabel], meaning: &'static str) -> DescribedMetric {
    DescribedMetric { name, kind: MetricKind::Counter, labels, meaning }
}

const fn gauge(name: &'static str, labels: &'static [MetricLabel], meaning: &'static str) -> DescribedMetric {
    DescribedMetric { name, kind: MetricKind::Gauge, labels, meaning }
}

const fn fixed(name: &'static str, values: &'static [&'static str]) -> MetricLabel {
    MetricLabel { name, values: LabelValues::Fixed(values) }
}

const fn known(name: &'static str, of: &'static str) -> MetricLabel {
    MetricLabel { name, values: LabelValues::Known { of, first: &[] } }
}

// === impl DescribedMetric ===

impl DescribedMetric {
    /// All metrics.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        METRICS.iter().flat_map(|group| group.metrics)
    }

    /// The metric of this name.
    pub fn of(name: &str) -> Option<&'static Self> {
        Self::all().find(|metric| metric.name == name)
    }

    /// Writes the lines before its samples, in the text format of Prometheus.
    pub(super) fn write_head(&self, text: &mut String) {
        let Self { name, kind, meaning, .. } = self;
        let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} {}", kind.word());
    }

    /// True if it is no value of the recorder, but read when somebody asks ([`super::MetricReading`]).
    pub(super) fn is_read(&self) -> bool {
        self.name.starts_with("process_")
    }

    /// Its labels where it begins at zero: one set for each of these servers and each value that a label begins with.
    pub(super) fn label_sets(&self, servers: &[&str]) -> Vec<Vec<metrics::Label>> {
        let mut sets = vec![Vec::new()];
        for label in self.labels {
            let values: Vec<String> = match label.values {
                LabelValues::Servers => servers.iter().map(|&server| server.to_owned()).collect(),
                LabelValues::Fixed(values) | LabelValues::Known { first: values, .. } => {
                    values.iter().map(|&value| value.to_owned()).collect()
                }
            };
            let with = |set: &Vec<metrics::Label>| {
                let value = |value: &String| {
                    let mut set = set.clone();
                    set.push(metrics::Label::new(label.name, value.clone()));
                    set
                };
                values.iter().map(value).collect::<Vec<_>>()
            };
            sets = sets.iter().flat_map(with).collect();
        }
        sets
    }
}

// === impl MetricKind ===

impl MetricKind {
    /// Its word in the text format of Prometheus.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}
