-- Milliseconds by which the clock of a replica was ahead of the database's at its last renewal; NULL for one that does not tell.
ALTER TABLE replicas ADD COLUMN clock_ahead BIGINT;
