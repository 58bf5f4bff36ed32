-- 1 for the replica at which the servers run that are one for all replicas.
ALTER TABLE replicas ADD COLUMN is_home BIGINT NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX replicas_one_home ON replicas (is_home) WHERE is_home = 1;
