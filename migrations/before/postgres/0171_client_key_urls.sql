ALTER TABLE clients ADD COLUMN jwks_uri TEXT;
