-- +goose Up

-- Capacities that rules share. Rules name them; a pool that is named stays.
CREATE TABLE pools (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT    NOT NULL CONSTRAINT pools_name_key UNIQUE
                           CONSTRAINT pools_name_shape CHECK (length(name) <= 63 AND name GLOB '[a-z0-9]*' AND name NOT GLOB '*[^a-z0-9._-]*'),
    description    TEXT    NOT NULL DEFAULT '',
    limit_count    INTEGER NOT NULL CHECK (limit_count BETWEEN 0 AND 9007199254740991),
    window_ms      INTEGER NOT NULL CHECK (window_ms BETWEEN 1 AND 315576000000),
    normal_percent INTEGER NOT NULL CHECK (normal_percent BETWEEN 0 AND 100),
    low_percent    INTEGER NOT NULL CHECK (low_percent BETWEEN 0 AND 100),
    version        INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at     TEXT    NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.___Z'),
    updated_at     TEXT    NOT NULL CHECK (updated_at LIKE '____-__-__T__:__:__.___Z')
) STRICT;

-- Policies. What an older node writes gets the defaults, which are no policy.
-- The composite ones are JSON.
ALTER TABLE rules ADD COLUMN elastic_percent   INTEGER CHECK (elastic_percent BETWEEN 1 AND 10000);
ALTER TABLE rules ADD COLUMN pool              TEXT;
ALTER TABLE rules ADD COLUMN priority          TEXT CHECK (priority IN ('critical', 'normal', 'low'));
ALTER TABLE rules ADD COLUMN tiers             TEXT;
ALTER TABLE rules ADD COLUMN schedule          TEXT;
ALTER TABLE rules ADD COLUMN calendar          TEXT;
ALTER TABLE rules ADD COLUMN active_from       TEXT CHECK (active_from LIKE '____-__-__T__:__:__.___Z');
ALTER TABLE rules ADD COLUMN active_until      TEXT CHECK (active_until LIKE '____-__-__T__:__:__.___Z');
ALTER TABLE rules ADD COLUMN when_expr         TEXT;
ALTER TABLE rules ADD COLUMN charge_on         TEXT NOT NULL DEFAULT 'request' CHECK (charge_on IN ('request', 'report'));
ALTER TABLE rules ADD COLUMN over_limit        TEXT NOT NULL DEFAULT 'deny' CHECK (over_limit IN ('deny', 'defer'));
ALTER TABLE rules ADD COLUMN defer_bounds      TEXT;
ALTER TABLE rules ADD COLUMN candidate         TEXT;
ALTER TABLE rules ADD COLUMN retry_jitter_ms   INTEGER CHECK (retry_jitter_ms BETWEEN 0 AND 3600000);
ALTER TABLE rules ADD COLUMN hot_keys          TEXT NOT NULL DEFAULT 'exact' CHECK (hot_keys IN ('exact', 'leased', 'sharded'));
ALTER TABLE rules ADD COLUMN hot_raise_percent INTEGER CHECK (hot_raise_percent BETWEEN 1 AND 400);
CREATE INDEX rules_pool_id ON rules (pool, id);

-- Actions and subjects grow with the product; the code knows them. SQLite
-- changes a CHECK only by making the table anew.
CREATE TABLE rule_revisions_new (
    rule_id    INTEGER NOT NULL,
    version    INTEGER NOT NULL CHECK (version >= 1),
    action     TEXT    NOT NULL CHECK (action <> ''),
    actor_kind TEXT    NOT NULL CHECK (actor_kind <> ''),
    actor_name TEXT    NOT NULL CHECK (actor_name <> ''),
    at         TEXT    NOT NULL CHECK (at LIKE '____-__-__T__:__:__.___Z'),
    rule       TEXT    NOT NULL CHECK (json_valid(rule)),
    PRIMARY KEY (rule_id, version)
) STRICT;
INSERT INTO rule_revisions_new SELECT rule_id, version, action, actor_kind, actor_name, at, rule FROM rule_revisions;
DROP TABLE rule_revisions;
ALTER TABLE rule_revisions_new RENAME TO rule_revisions;

CREATE TABLE audit_log_new (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    at           TEXT    NOT NULL CHECK (at LIKE '____-__-__T__:__:__.___Z'),
    actor_kind   TEXT    NOT NULL CHECK (actor_kind <> ''),
    actor_name   TEXT    NOT NULL CHECK (actor_name <> ''),
    action       TEXT    NOT NULL,
    subject_kind TEXT    NOT NULL CHECK (subject_kind <> ''),
    subject_id   INTEGER NOT NULL,
    subject_name TEXT    NOT NULL,
    details      TEXT    NOT NULL CHECK (json_valid(details))
) STRICT;
INSERT INTO audit_log_new SELECT id, at, actor_kind, actor_name, action, subject_kind, subject_id, subject_name, details FROM audit_log;
DROP TABLE audit_log;
ALTER TABLE audit_log_new RENAME TO audit_log;
CREATE INDEX audit_log_subject ON audit_log (subject_kind, subject_id, id);

-- +goose Down

-- What the narrower schema cannot hold goes, or becomes the nearest word.
CREATE TABLE rule_revisions_old (
    rule_id    INTEGER NOT NULL,
    version    INTEGER NOT NULL CHECK (version >= 1),
    action     TEXT    NOT NULL CHECK (action IN ('create', 'update', 'delete', 'rollback', 'import')),
    actor_kind TEXT    NOT NULL CHECK (actor_kind <> ''),
    actor_name TEXT    NOT NULL CHECK (actor_name <> ''),
    at         TEXT    NOT NULL CHECK (at LIKE '____-__-__T__:__:__.___Z'),
    rule       TEXT    NOT NULL CHECK (json_valid(rule)),
    PRIMARY KEY (rule_id, version)
) STRICT;
INSERT INTO rule_revisions_old
    SELECT rule_id, version,
           CASE WHEN action IN ('create', 'update', 'delete', 'rollback', 'import') THEN action ELSE 'update' END,
           actor_kind, actor_name, at, rule
    FROM rule_revisions;
DROP TABLE rule_revisions;
ALTER TABLE rule_revisions_old RENAME TO rule_revisions;

CREATE TABLE audit_log_old (
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
INSERT INTO audit_log_old
    SELECT id, at, actor_kind, actor_name, action, subject_kind, subject_id, subject_name, details FROM audit_log
    WHERE subject_kind IN ('rule', 'token');
DROP TABLE audit_log;
ALTER TABLE audit_log_old RENAME TO audit_log;
CREATE INDEX audit_log_subject ON audit_log (subject_kind, subject_id, id);

DROP INDEX rules_pool_id;
ALTER TABLE rules DROP COLUMN elastic_percent;
ALTER TABLE rules DROP COLUMN pool;
ALTER TABLE rules DROP COLUMN priority;
ALTER TABLE rules DROP COLUMN tiers;
ALTER TABLE rules DROP COLUMN schedule;
ALTER TABLE rules DROP COLUMN calendar;
ALTER TABLE rules DROP COLUMN active_from;
ALTER TABLE rules DROP COLUMN active_until;
ALTER TABLE rules DROP COLUMN when_expr;
ALTER TABLE rules DROP COLUMN charge_on;
ALTER TABLE rules DROP COLUMN over_limit;
ALTER TABLE rules DROP COLUMN defer_bounds;
ALTER TABLE rules DROP COLUMN candidate;
ALTER TABLE rules DROP COLUMN retry_jitter_ms;
ALTER TABLE rules DROP COLUMN hot_keys;
ALTER TABLE rules DROP COLUMN hot_raise_percent;
DROP TABLE pools;
