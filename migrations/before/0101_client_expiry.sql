-- Clients that nobody uses expire and keep their row, so that an app that still has its id can come back (OA-43).

-- When it expired. `registered` is when it was last active: it registered, was consented to, or a grant to it ended.
ALTER TABLE clients ADD COLUMN expired INTEGER;
CREATE INDEX clients_expired ON clients (expired) WHERE expired IS NOT NULL;
