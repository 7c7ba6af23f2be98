-- +goose Up

-- Capacities that rules share. Rules name them; a pool that is named stays.
CREATE TABLE pools (
    id             BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name           TEXT        NOT NULL CONSTRAINT pools_name_key UNIQUE
                               CONSTRAINT pools_name_shape CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    description    TEXT        NOT NULL DEFAULT '',
    limit_count    BIGINT      NOT NULL CHECK (limit_count BETWEEN 0 AND 9007199254740991),
    window_ms      BIGINT      NOT NULL CHECK (window_ms BETWEEN 1 AND 315576000000),
    normal_percent BIGINT      NOT NULL CHECK (normal_percent BETWEEN 0 AND 100),
    low_percent    BIGINT      NOT NULL CHECK (low_percent BETWEEN 0 AND 100),
    version        BIGINT      NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at     TIMESTAMPTZ NOT NULL,
    updated_at     TIMESTAMPTZ NOT NULL
);

-- Policies. What an older node writes gets the defaults, which are no policy.
-- The composite ones are JSON.
ALTER TABLE rules
    ADD COLUMN elastic_percent   BIGINT CHECK (elastic_percent BETWEEN 1 AND 10000),
    ADD COLUMN pool              TEXT,
    ADD COLUMN priority          TEXT CHECK (priority IN ('critical', 'normal', 'low')),
    ADD COLUMN tiers             TEXT,
    ADD COLUMN schedule          TEXT,
    ADD COLUMN calendar          TEXT,
    ADD COLUMN active_from       TIMESTAMPTZ,
    ADD COLUMN active_until      TIMESTAMPTZ,
    ADD COLUMN when_expr         TEXT,
    ADD COLUMN charge_on         TEXT NOT NULL DEFAULT 'request' CHECK (charge_on IN ('request', 'report')),
    ADD COLUMN over_limit        TEXT NOT NULL DEFAULT 'deny' CHECK (over_limit IN ('deny', 'defer')),
    ADD COLUMN defer_bounds      TEXT,
    ADD COLUMN candidate         TEXT,
    ADD COLUMN retry_jitter_ms   BIGINT CHECK (retry_jitter_ms BETWEEN 0 AND 3600000),
    ADD COLUMN hot_keys          TEXT NOT NULL DEFAULT 'exact' CHECK (hot_keys IN ('exact', 'leased', 'sharded')),
    ADD COLUMN hot_raise_percent BIGINT CHECK (hot_raise_percent BETWEEN 1 AND 400);
CREATE INDEX rules_pool_id ON rules (pool, id);

-- Actions and subjects grow with the product; the code knows them.
ALTER TABLE rule_revisions DROP CONSTRAINT rule_revisions_action_check;
ALTER TABLE rule_revisions ADD CONSTRAINT rule_revisions_action_check CHECK (action <> '');
ALTER TABLE audit_log DROP CONSTRAINT audit_log_subject_kind_check;
ALTER TABLE audit_log ADD CONSTRAINT audit_log_subject_kind_check CHECK (subject_kind <> '');

-- +goose Down

-- What the narrower schema cannot hold goes, or becomes the nearest word.
UPDATE rule_revisions SET action = 'update' WHERE action NOT IN ('create', 'update', 'delete', 'rollback', 'import');
ALTER TABLE rule_revisions DROP CONSTRAINT rule_revisions_action_check;
ALTER TABLE rule_revisions ADD CONSTRAINT rule_revisions_action_check CHECK (action IN ('create', 'update', 'delete', 'rollback', 'import'));
DELETE FROM audit_log WHERE subject_kind NOT IN ('rule', 'token');
ALTER TABLE audit_log DROP CONSTRAINT audit_log_subject_kind_check;
ALTER TABLE audit_log ADD CONSTRAINT audit_log_subject_kind_check CHECK (subject_kind IN ('rule', 'token'));

DROP INDEX rules_pool_id;
ALTER TABLE rules
    DROP COLUMN elastic_percent, DROP COLUMN pool, DROP COLUMN priority, DROP COLUMN tiers, DROP COLUMN schedule,
    DROP COLUMN calendar, DROP COLUMN active_from, DROP COLUMN active_until, DROP COLUMN when_expr, DROP COLUMN charge_on,
    DROP COLUMN over_limit, DROP COLUMN defer_bounds, DROP COLUMN candidate, DROP COLUMN retry_jitter_ms, DROP COLUMN hot_keys,
    DROP COLUMN hot_raise_percent;
DROP TABLE pools;
