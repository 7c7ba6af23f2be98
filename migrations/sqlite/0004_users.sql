-- +goose Up

-- People who sign in to the console. password_hash is an Argon2id string, or
-- empty where no password lets in. generation ends sessions when it grows.
CREATE TABLE users (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    name          TEXT    NOT NULL CONSTRAINT users_name_key UNIQUE CHECK (name <> ''),
    role          TEXT    NOT NULL CHECK (role IN ('viewer', 'editor', 'admin')),
    password_hash TEXT    NOT NULL,
    disabled      INTEGER NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1)),
    generation    INTEGER NOT NULL DEFAULT 1 CHECK (generation >= 1),
    created_by    TEXT    NOT NULL,
    created_at    TEXT    NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.___Z'),
    updated_at    TEXT    NOT NULL CHECK (updated_at LIKE '____-__-__T__:__:__.___Z'),
    last_login    TEXT    CHECK (last_login LIKE '____-__-__T__:__:__.___Z')
) STRICT;

-- Sessions of the console, by the hash of what the cookie holds.
CREATE TABLE sessions (
    token      TEXT NOT NULL PRIMARY KEY,
    data       BLOB NOT NULL,
    expires_at TEXT NOT NULL CHECK (expires_at LIKE '____-__-__T__:__:__.___Z')
) STRICT;
CREATE INDEX sessions_expires_at ON sessions (expires_at);

INSERT INTO versions (name, version) VALUES ('users', 0);

-- +goose Down
DELETE FROM audit_log WHERE subject_kind = 'user';
DELETE FROM versions WHERE name = 'users';
DROP TABLE sessions;
DROP TABLE users;
