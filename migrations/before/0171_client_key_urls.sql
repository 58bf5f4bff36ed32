-- The URL of the keys of a client that signs its assertions (jwks_uri); it has either this or its keys.
ALTER TABLE clients ADD COLUMN jwks_uri TEXT;
