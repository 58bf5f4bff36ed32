CREATE TABLE limit_counts (
    name TEXT NOT NULL,
    key BLOB NOT NULL,
    full_at INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    PRIMARY KEY (name, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_counts_by_changed ON limit_counts (changed);
