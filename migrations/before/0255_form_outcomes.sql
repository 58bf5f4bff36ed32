-- The first submission of a form decides, and its outcome is kept beside the request until that ends: a second submission gets it.
-- `outcome` is sealed under a key derived from the form's token, which is not stored.
ALTER TABLE transactions ADD COLUMN decision TEXT;
ALTER TABLE transactions ADD COLUMN outcome BLOB;

-- The time of the decision, and the SHA-256 of the token of the form that made it.
ALTER TABLE device_authorizations ADD COLUMN decided INTEGER;
ALTER TABLE device_authorizations ADD COLUMN form BLOB;

-- A request stays until it expires, also after its response came. `form` is the SHA-256 of the token of the form that began it,
-- `location` the address that the browser was sent to, sealed under a key derived from that token; `outcome` is what became of it.
ALTER TABLE upstream_requests ADD COLUMN form BLOB;
ALTER TABLE upstream_requests ADD COLUMN location BLOB;
ALTER TABLE upstream_requests ADD COLUMN taken INTEGER;
ALTER TABLE upstream_requests ADD COLUMN outcome TEXT;
CREATE UNIQUE INDEX upstream_requests_form ON upstream_requests (form);

-- The time of the one repeated exchange that a client may make without losing its login.
ALTER TABLE codes ADD COLUMN repeated INTEGER;
