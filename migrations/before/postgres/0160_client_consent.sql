-- See ../0160_client_consent.sql.
ALTER TABLE clients ADD COLUMN consent_skipped BIGINT NOT NULL DEFAULT 0 CHECK (consent_skipped IN (0, 1));
