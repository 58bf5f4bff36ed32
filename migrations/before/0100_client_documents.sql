-- Clients whose id is the URL of their metadata document. They have a row once somebody consents to one.

-- Digest of what the people consented to: name, redirect URIs, keys and method. NULL for clients that registered.
ALTER TABLE clients ADD COLUMN document BLOB;
-- When the host last said so; `metadata` is the document.
ALTER TABLE clients ADD COLUMN document_read INTEGER;
