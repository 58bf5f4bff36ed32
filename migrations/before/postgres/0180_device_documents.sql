ALTER TABLE device_authorizations DROP CONSTRAINT device_authorizations_client_fkey;
ALTER TABLE device_authorizations ADD COLUMN document TEXT;
