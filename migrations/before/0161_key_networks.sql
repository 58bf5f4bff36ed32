-- Networks from which a key and what rests on it may be used, in CIDR notation, separated by spaces; NULL: anywhere.
ALTER TABLE api_keys ADD COLUMN networks TEXT;
