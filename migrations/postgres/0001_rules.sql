-- +goose Up

-- One row a rule. Bounds are those of the validator; they are here as well so
-- that no hand-written UPDATE can store what a decision cannot use.
CREATE TABLE rules (
    id           BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         TEXT        NOT NULL CONSTRAINT rules_name_key UNIQUE
                             CONSTRAINT rules_name_shape CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    description  TEXT        NOT NULL DEFAULT '',
    scope        TEXT        NOT NULL CHECK (scope <> ''),
    route        TEXT,
    method       TEXT,
    algorithm    TEXT        NOT NULL CHECK (algorithm IN ('fixed_window', 'sliding_window_log', 'sliding_window_counter',
                             'sliding_window_buckets', 'token_bucket', 'gcra', 'leaky_bucket', 'leaky_queue', 'concurrency')),
    limit_count  BIGINT      NOT NULL CHECK (limit_count BETWEEN 0 AND 9007199254740991),
    window_ms    BIGINT      NOT NULL CHECK (window_ms BETWEEN 1 AND 315576000000),
    burst        BIGINT      CHECK (burst BETWEEN 0 AND 9007199254740991),
    align        TEXT        CHECK (align IN ('calendar', 'first_hit')),
    anchor_ms    BIGINT,
    buckets      BIGINT      CHECK (buckets BETWEEN 1 AND 1440),
    weight_field TEXT,
    throttle     TEXT        NOT NULL DEFAULT 'hard' CHECK (throttle IN ('hard', 'soft', 'elastic')),
    soft_percent BIGINT      CHECK (soft_percent >= 0),
    mode         TEXT        NOT NULL DEFAULT 'enforce' CHECK (mode IN ('enforce', 'shadow')),
    fail_mode    TEXT        NOT NULL DEFAULT 'open' CHECK (fail_mode IN ('open', 'closed', 'local')),
    is_active    BOOLEAN     NOT NULL DEFAULT TRUE,
    version      BIGINT      NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at   TIMESTAMPTZ NOT NULL,
    updated_at   TIMESTAMPTZ NOT NULL
);

-- Listings filter by one of these and page by id.
CREATE INDEX rules_scope_id  ON rules (scope, id);
CREATE INDEX rules_route_id  ON rules (route, id);
CREATE INDEX rules_method_id ON rules (method, id);
CREATE INDEX rules_mode_id   ON rules (mode, id);
CREATE INDEX rules_active_id ON rules (is_active, id);

-- Every version of every rule. No foreign key: a deleted rule keeps its history.
CREATE TABLE rule_revisions (
    rule_id    BIGINT      NOT NULL,
    version    BIGINT      NOT NULL CHECK (version >= 1),
    action     TEXT        NOT NULL CHECK (action IN ('create', 'update', 'delete', 'rollback', 'import')),
    actor_kind TEXT        NOT NULL CHECK (actor_kind <> ''),
    actor_name TEXT        NOT NULL CHECK (actor_name <> ''),
    at         TIMESTAMPTZ NOT NULL,
    rule       JSONB       NOT NULL,
    PRIMARY KEY (rule_id, version)
);

-- Who changed what, complete; written in the transaction of the change.
CREATE TABLE audit_log (
    id           BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           TIMESTAMPTZ NOT NULL,
    actor_kind   TEXT        NOT NULL CHECK (actor_kind <> ''),
    actor_name   TEXT        NOT NULL CHECK (actor_name <> ''),
    action       TEXT        NOT NULL,
    subject_kind TEXT        NOT NULL CHECK (subject_kind IN ('rule', 'token')),
    subject_id   BIGINT      NOT NULL,
    subject_name TEXT        NOT NULL,
    details      JSONB       NOT NULL
);
CREATE INDEX audit_log_subject ON audit_log (subject_kind, subject_id, id);

-- API tokens: only the SHA-256 of the secret. A name may be used again once the
-- token that had it is revoked.
CREATE TABLE tokens (
    id         BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       TEXT        NOT NULL CHECK (name <> ''),
    hash       BYTEA       NOT NULL CONSTRAINT tokens_hash_key UNIQUE CHECK (length(hash) = 32),
    scopes     TEXT        NOT NULL CHECK (scopes <> ''),
    created_by TEXT        NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ,
    revoked_at TIMESTAMPTZ
);
CREATE UNIQUE INDEX tokens_live_name ON tokens (name) WHERE revoked_at IS NULL;

-- Counts changes, so that a node learns with one small query whether to reload.
-- The row is also the lock that puts writers in one line.
CREATE TABLE versions (
    name    TEXT   PRIMARY KEY,
    version BIGINT NOT NULL CHECK (version >= 0)
);
INSERT INTO versions (name, version) VALUES ('rules', 0), ('tokens', 0);

-- +goose Down
DROP TABLE versions;
DROP TABLE tokens;
DROP TABLE audit_log;
DROP TABLE rule_revisions;
DROP TABLE rules;
