//! A `Server` made of many servers: policy, routing, merging. Knows nothing of transports and revisions.
