-- +goose Up

-- People who sign in to the console. password_hash is an Argon2id string, or
-- empty where no password lets in. generation ends sessions when it grows.
CREATE TABLE users (
    id            BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name          TEXT        NOT NULL CONSTRAINT users_name_key UNIQUE CHECK (name <> ''),
    role          TEXT        NOT NULL CHECK (role IN ('viewer', 'editor', 'admin')),
    password_hash TEXT        NOT NULL,
    disabled      BOOLEAN     NOT NULL DEFAULT FALSE,
    generation    BIGINT      NOT NULL DEFAULT 1 CHECK (generation >= 1),
    created_by    TEXT        NOT NULL,
    created_at    TIMESTAMPTZ NOT NULL,
    updated_at    TIMESTAMPTZ NOT NULL,
    last_login    TIMESTAMPTZ
);

-- Sessions of the console, by the hash of what the cookie holds.
CREATE TABLE sessions (
    token      TEXT        NOT NULL PRIMARY KEY,
    data       BYTEA       NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX sessions_expires_at ON sessions (expires_at);

INSERT INTO versions (name, version) VALUES ('users', 0);

-- +goose Down
DELETE FROM audit_log WHERE subject_kind = 'user';
DELETE FROM versions WHERE name = 'users';
DROP TABLE sessions;
DROP TABLE users;
