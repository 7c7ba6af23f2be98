-- +goose Up

-- One row an override: an exception from one rule for one key. match_key is the
-- key as it is compared, key the same for people. seq is the change that wrote
-- the row, so that nodes load only what changed.
CREATE TABLE rule_overrides (
    id          BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    rule_id     BIGINT      NOT NULL,
    key         TEXT        NOT NULL CHECK (key <> ''),
    match_key   TEXT        NOT NULL CHECK (match_key <> ''),
    is_prefix   BOOLEAN     NOT NULL,
    limit_count BIGINT      CHECK (limit_count BETWEEN 0 AND 9007199254740991),
    burst       BIGINT      CHECK (burst IS NULL OR limit_count IS NOT NULL AND burst BETWEEN 0 AND 9007199254740991),
    unlimited   BOOLEAN     NOT NULL,
    blocked     BOOLEAN     NOT NULL,
    reason      TEXT        NOT NULL,
    expires_at  TIMESTAMPTZ,
    version     BIGINT      NOT NULL CHECK (version >= 1),
    seq         BIGINT      NOT NULL,
    created_at  TIMESTAMPTZ NOT NULL,
    updated_at  TIMESTAMPTZ NOT NULL,
    CONSTRAINT rule_overrides_one CHECK (num_nonnulls(limit_count) + unlimited::INT + blocked::INT = 1),
    CONSTRAINT rule_overrides_key UNIQUE (rule_id, match_key, is_prefix)
);
CREATE INDEX rule_overrides_rule_id ON rule_overrides (rule_id, id);
CREATE INDEX rule_overrides_seq     ON rule_overrides (seq);
CREATE INDEX rule_overrides_expiry  ON rule_overrides (expires_at) WHERE expires_at IS NOT NULL;

-- Overrides that were deleted, for nodes that hold them still; an empty match_key
-- stands for all of a rule. Old rows are dropped, up to the version
-- overrides_floor: a node that is further behind loads everything.
CREATE TABLE override_tombstones (
    seq       BIGINT      NOT NULL,
    rule_id   BIGINT      NOT NULL,
    match_key TEXT        NOT NULL,
    is_prefix BOOLEAN     NOT NULL,
    at        TIMESTAMPTZ NOT NULL
);
CREATE INDEX override_tombstones_seq ON override_tombstones (seq);
CREATE INDEX override_tombstones_at  ON override_tombstones (at);

INSERT INTO versions (name, version) VALUES ('overrides', 0), ('overrides_floor', 0);

-- +goose Down
DELETE FROM versions WHERE name IN ('overrides', 'overrides_floor');
DROP TABLE override_tombstones;
DROP TABLE rule_overrides;
