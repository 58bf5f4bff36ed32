//! HTTP layers for every route: request ids, traces, origin and host checks, limits, headers. Knows nothing of what the routes do.
