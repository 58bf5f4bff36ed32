-- Bounds on clients that nobody has consented to, and a log of revocations whose kinds are checked where they are read.

-- Who registered the client, as a MAC of the network: kept only until somebody consents.
ALTER TABLE clients ADD COLUMN network BLOB;
-- What the row takes, in bytes: its text, and 512 for ids, digests and index entries.
ALTER TABLE clients ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
-- Digest of the normalised metadata of every client, public or not: an identical registration of a revoked client is
-- refused by it. NULL for confidential clients from before this migration.
ALTER TABLE clients ADD COLUMN registration BLOB;
-- When it last registered: an identical registration renews it.
ALTER TABLE clients ADD COLUMN registered INTEGER NOT NULL DEFAULT 0;

UPDATE clients SET
    bytes = length(CAST(name AS BLOB)) + length(CAST(redirect_uris AS BLOB)) + length(CAST(metadata AS BLOB))
        + length(CAST(grant_types AS BLOB)) + coalesce(length(CAST(scope AS BLOB)), 0) + 512,
    registration = fingerprint,
    registered = created;

DROP INDEX clients_unused;
CREATE INDEX clients_revoked ON clients (registration) WHERE revoked IS NOT NULL;
CREATE INDEX clients_unused ON clients (network, registered) WHERE consented IS NULL AND revoked IS NULL;
CREATE INDEX clients_unused_registered ON clients (registered) WHERE consented IS NULL AND revoked IS NULL;

-- How many unused clients each network has; kept by the triggers below, so that no registration counts rows. A network
-- that is not known is the empty one.
CREATE TABLE unused_clients (
    network BLOB PRIMARY KEY NOT NULL,
    clients INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
CREATE INDEX unused_clients_most ON unused_clients (clients DESC, network);

UPDATE clients SET network = x'' WHERE consented IS NULL;
INSERT INTO unused_clients (network, clients, bytes)
    SELECT network, COUNT(*), SUM(bytes) FROM clients WHERE consented IS NULL AND revoked IS NULL GROUP BY network;

-- The sums over `unused_clients`: one row.
CREATE TABLE unused_clients_total (
    id INTEGER PRIMARY KEY NOT NULL CHECK (id = 1),
    clients INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
INSERT INTO unused_clients_total (id, clients, bytes)
    SELECT 1, coalesce(SUM(clients), 0), coalesce(SUM(bytes), 0) FROM unused_clients;

CREATE TRIGGER clients_unused_added AFTER INSERT ON clients
WHEN NEW.consented IS NULL AND NEW.revoked IS NULL
BEGIN
    INSERT INTO unused_clients (network, clients, bytes) VALUES (coalesce(NEW.network, x''), 1, NEW.bytes)
        ON CONFLICT (network) DO UPDATE SET clients = clients + 1, bytes = bytes + excluded.bytes;
    UPDATE unused_clients_total SET clients = clients + 1, bytes = bytes + NEW.bytes;
END;

CREATE TRIGGER clients_unused_deleted AFTER DELETE ON clients
WHEN OLD.consented IS NULL AND OLD.revoked IS NULL
BEGIN
    UPDATE unused_clients SET clients = clients - 1, bytes = bytes - OLD.bytes
        WHERE network = coalesce(OLD.network, x'');
    DELETE FROM unused_clients WHERE network = coalesce(OLD.network, x'') AND clients <= 0;
    UPDATE unused_clients_total SET clients = clients - 1, bytes = bytes - OLD.bytes;
END;

CREATE TRIGGER clients_unused_ended AFTER UPDATE OF consented, revoked ON clients
WHEN OLD.consented IS NULL AND OLD.revoked IS NULL AND NOT (NEW.consented IS NULL AND NEW.revoked IS NULL)
BEGIN
    UPDATE unused_clients SET clients = clients - 1, bytes = bytes - OLD.bytes
        WHERE network = coalesce(OLD.network, x'');
    DELETE FROM unused_clients WHERE network = coalesce(OLD.network, x'') AND clients <= 0;
    UPDATE unused_clients_total SET clients = clients - 1, bytes = bytes - OLD.bytes;
END;

CREATE TRIGGER clients_unused_restored AFTER UPDATE OF consented, revoked ON clients
WHEN NEW.consented IS NULL AND NEW.revoked IS NULL AND NOT (OLD.consented IS NULL AND OLD.revoked IS NULL)
BEGIN
    INSERT INTO unused_clients (network, clients, bytes) VALUES (coalesce(NEW.network, x''), 1, NEW.bytes)
        ON CONFLICT (network) DO UPDATE SET clients = clients + 1, bytes = bytes + excluded.bytes;
    UPDATE unused_clients_total SET clients = clients + 1, bytes = bytes + NEW.bytes;
END;

-- A withdrawn successor ends the access tokens of its generation, which is a kind of its own.
CREATE TABLE revocations_new (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
INSERT INTO revocations_new (sequence, kind, subject, at) SELECT sequence, kind, subject, at FROM revocations;
DROP TABLE revocations;
ALTER TABLE revocations_new RENAME TO revocations;
