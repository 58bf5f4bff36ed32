-- The audit trail. Rows are only added. The oldest may be deleted once they are 7 days older than the newest; a program that
-- deletes or changes others has to drop the triggers first.
CREATE TABLE audit_events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    event TEXT NOT NULL,
    user TEXT,
    client TEXT,
    -- The correlation id of the HTTP request.
    request TEXT,
    -- Further names and texts, as a JSON object.
    fields TEXT NOT NULL,
    -- The number of events for which the row stands.
    count INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_events_at ON audit_events (at);
CREATE INDEX audit_events_user ON audit_events (user, sequence) WHERE user IS NOT NULL;
CREATE INDEX audit_events_client ON audit_events (client, sequence) WHERE client IS NOT NULL;
CREATE INDEX audit_events_request ON audit_events (request) WHERE request IS NOT NULL;
CREATE TRIGGER audit_events_added BEFORE INSERT ON audit_events
WHEN EXISTS (SELECT 1 FROM audit_events WHERE sequence = new.sequence)
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;
CREATE TRIGGER audit_events_unchanged BEFORE UPDATE ON audit_events
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;
CREATE TRIGGER audit_events_kept BEFORE DELETE ON audit_events
WHEN old.sequence > (SELECT min(sequence) FROM audit_events)
    OR old.at > (SELECT max(at) FROM audit_events) - 604800000
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only: only its oldest rows can be deleted, and not before 7 days');
END;
