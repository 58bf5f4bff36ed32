-- Rotation of API keys: what took the place of a key, and until when the old one may be used beside it.
ALTER TABLE api_keys ADD COLUMN successor TEXT REFERENCES api_keys (id);
ALTER TABLE api_keys ADD COLUMN retires INTEGER;
CREATE INDEX api_keys_retires ON api_keys (retires) WHERE retires IS NOT NULL AND revoked IS NULL;
CREATE INDEX api_keys_successor ON api_keys (successor) WHERE successor IS NOT NULL;

-- Until now a key made without a user's name belonged to `owner`. Such keys stay as they are; where keys share a user, the
-- next start of the gateway says so, once.
INSERT INTO gateway (name, value)
SELECT 'notice: shared users', x'01'
WHERE EXISTS (SELECT 1 FROM api_keys WHERE revoked IS NULL GROUP BY user HAVING count(*) > 1)
ON CONFLICT DO NOTHING;
