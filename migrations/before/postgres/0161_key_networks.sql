-- See ../0161_key_networks.sql.
ALTER TABLE api_keys ADD COLUMN networks TEXT;
