-- Clients of the operator about which people are not asked: the operator vouches for them.
ALTER TABLE clients ADD COLUMN consent_skipped INTEGER NOT NULL DEFAULT 0 CHECK (consent_skipped IN (0, 1));
