-- Facts about this gateway itself, such as its pepper; values are written once.
CREATE TABLE gateway (
    name TEXT PRIMARY KEY NOT NULL,
    value BLOB NOT NULL
) STRICT;
