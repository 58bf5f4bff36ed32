CREATE TABLE ended_user_secrets (
    id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    user_id TEXT NOT NULL,
    name TEXT NOT NULL
);

CREATE FUNCTION user_secret_ended() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ended_user_secrets (user_id, name) VALUES (OLD.user_id, OLD.name);
    RETURN NULL;
END
$$;
CREATE TRIGGER user_secrets_deleted AFTER DELETE ON user_secrets FOR EACH ROW
    EXECUTE FUNCTION user_secret_ended();
