CREATE TABLE limit_counts (
    name TEXT NOT NULL,
    key BYTEA NOT NULL,
    full_at BIGINT NOT NULL,
    changed BIGINT NOT NULL,
    PRIMARY KEY (name, key)
);
CREATE INDEX limit_counts_by_changed ON limit_counts (changed);
