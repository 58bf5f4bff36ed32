-- 1 for a client of the operator with a secret for which nobody chose a place: it sends it in the Authorization header or in the form.
-- One that was registered before keeps the place that it was told.
ALTER TABLE clients ADD COLUMN any_secret BIGINT NOT NULL DEFAULT 0;
