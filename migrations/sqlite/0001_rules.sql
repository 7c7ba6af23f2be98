-- +goose Up

-- One row a rule. STRICT keeps text out of integer columns; times are text in
-- UTC with milliseconds, 2026-11-21T12:00:00.000Z, which also sorts by time.
-- AUTOINCREMENT never gives an id twice.
CREATE TABLE rules (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    name         TEXT    NOT NULL CONSTRAINT rules_name_key UNIQUE
                         CONSTRAINT rules_name_shape CHECK (length(name) <= 63 AND name GLOB '[a-z0-9]*' AND name NOT GLOB '*[^a-z0-9._-]*'),
    description  TEXT    NOT NULL DEFAULT '',
    scope        TEXT    NOT NULL CHECK (scope <> ''),
    route        TEXT,
    method       TEXT,
    algorithm    TEXT    NOT NULL CHECK (algorithm IN ('fixed_window', 'sliding_window_log', 'sliding_window_counter',
                         'sliding_window_buckets', 'token_bucket', 'gcra', 'leaky_bucket', 'leaky_queue', 'concurrency')),
    limit_count  INTEGER NOT NULL CHECK (limit_count BETWEEN 0 AND 9007199254740991),
    window_ms    INTEGER NOT NULL CHECK (window_ms BETWEEN 1 AND 315576000000),
    burst        INTEGER CHECK (burst BETWEEN 0 AND 9007199254740991),
    align        TEXT    CHECK (align IN ('calendar', 'first_hit')),
    anchor_ms    INTEGER,
    buckets      INTEGER CHECK (buckets BETWEEN 1 AND 1440),
    weight_field TEXT,
    throttle     TEXT    NOT NULL DEFAULT 'hard' CHECK (throttle IN ('hard', 'soft', 'elastic')),
    soft_percent INTEGER CHECK (soft_percent >= 0),
    mode         TEXT    NOT NULL DEFAULT 'enforce' CHECK (mode IN ('enforce', 'shadow')),
    fail_mode    TEXT    NOT NULL DEFAULT 'open' CHECK (fail_mode IN ('open', 'closed', 'local')),
    is_active    INTEGER NOT NULL DEFAULT 1 CHECK (is_active IN (0, 1)),
    version      INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at   TEXT    NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.___Z'),
    updated_at   TEXT    NOT NULL CHECK (updated_at LIKE '____-__-__T__:__:__.___Z')
) STRICT;

-- Listings filter by one of these and page by id.
CREATE INDEX rules_scope_id  ON rules (scope, id);
CREATE INDEX rules_route_id  ON rules (route, id);
CREATE INDEX rules_method_id ON rules (method, id);
CREATE INDEX rules_mode_id   ON rules (mode, id);
CREATE INDEX rules_active_id ON rules (is_active, id);

-- Every version of every rule. No foreign key: a deleted rule keeps its history.
CREATE TABLE rule_revisions (
    rule_id    INTEGER NOT NULL,
    version    INTEGER NOT NULL CHECK (version >= 1),
    action     TEXT    NOT NULL CHECK (action IN ('create', 'update', 'delete', 'rollback', 'import')),
    actor_kind TEXT    NOT NULL CHECK (actor_kind <> ''),
    actor_name TEXT    NOT NULL CHECK (actor_name <> ''),
    at         TEXT    NOT NULL CHECK (at LIKE '____-__-__T__:__:__.___Z'),
    rule       TEXT    NOT NULL CHECK (json_valid(rule)),
    PRIMARY KEY (rule_id, version)
) STRICT;

-- Who changed what, complete; written in the transaction of the change.
CREATE TABLE audit_log (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    at           TEXT    NOT NULL CHECK (at LIKE '____-__-__T__:__:__.___Z'),
    actor_kind   TEXT    NOT NULL CHECK (actor_kind <> ''),
    actor_name   TEXT    NOT NULL CHECK (actor_name <> ''),
    action       TEXT    NOT NULL,
    subject_kind TEXT    NOT NULL CHECK (subject_kind IN ('rule', 'token')),
    subject_id   INTEGER NOT NULL,
    subject_name TEXT    NOT NULL,
    details      TEXT    NOT NULL CHECK (json_valid(details))
) STRICT;
CREATE INDEX audit_log_subject ON audit_log (subject_kind, subject_id, id);

-- API tokens: only the SHA-256 of the secret. A name may be used again once the
-- token that had it is revoked.
CREATE TABLE tokens (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL CHECK (name <> ''),
    hash       BLOB    NOT NULL CONSTRAINT tokens_hash_key UNIQUE CHECK (length(hash) = 32),
    scopes     TEXT    NOT NULL CHECK (scopes <> ''),
    created_by TEXT    NOT NULL,
    created_at TEXT    NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.___Z'),
    expires_at TEXT    CHECK (expires_at LIKE '____-__-__T__:__:__.___Z'),
    revoked_at TEXT    CHECK (revoked_at LIKE '____-__-__T__:__:__.___Z')
) STRICT;
CREATE UNIQUE INDEX tokens_live_name ON tokens (name) WHERE revoked_at IS NULL;

-- Counts changes, so that a node learns with one small query whether to reload.
-- The row is also the lock that puts writers in one line.
CREATE TABLE versions (
    name    TEXT    PRIMARY KEY,
    version INTEGER NOT NULL CHECK (version >= 0)
) STRICT;
INSERT INTO versions (name, version) VALUES ('rules', 0), ('tokens', 0);

-- +goose Down
DROP TABLE versions;
DROP TABLE tokens;
DROP TABLE audit_log;
DROP TABLE rule_revisions;
DROP TABLE rules;
