-- +goose Up

-- The policies of a rule are one JSON object, by the names that they have in the
-- API; those at their defaults are left out. What they may be is for the validator.
ALTER TABLE rules ADD COLUMN policies TEXT NOT NULL DEFAULT '{}'
    CONSTRAINT rules_policies_object CHECK (json_valid(policies) AND json_type(policies) = 'object');

-- Columns that hold JSON as text were checked by nobody. What was damaged by hand
-- becomes a string, which no node takes for a policy.
UPDATE rules SET policies = (
    SELECT json_group_object(key, CASE type WHEN 'object' THEN json(value) ELSE value END) FROM json_each(json_object(
    'elastic_percent', elastic_percent,
    'pool', pool,
    'priority', priority,
    'tiers', json(CASE WHEN NOT json_valid(tiers) THEN json_quote(tiers)
        WHEN json_type(tiers) IN ('object', 'null') THEN tiers ELSE json_quote(tiers) END),
    'schedule', json(CASE WHEN NOT json_valid(schedule) THEN json_quote(schedule)
        WHEN json_type(schedule) IN ('object', 'null') THEN schedule ELSE json_quote(schedule) END),
    'calendar', json(CASE WHEN NOT json_valid(calendar) THEN json_quote(calendar)
        WHEN json_type(calendar) IN ('object', 'null') THEN calendar ELSE json_quote(calendar) END),
    'active_from', active_from,
    'active_until', active_until,
    'when', when_expr,
    'charge_on', nullif(charge_on, 'request'),
    'over_limit', nullif(over_limit, 'deny'),
    'defer', json(CASE WHEN NOT json_valid(defer_bounds) THEN json_quote(defer_bounds)
        WHEN json_type(defer_bounds) IN ('object', 'null') THEN defer_bounds ELSE json_quote(defer_bounds) END),
    'candidate', json(CASE WHEN NOT json_valid(candidate) THEN json_quote(candidate)
        WHEN json_type(candidate) IN ('object', 'null') THEN candidate ELSE json_quote(candidate) END),
    'retry_jitter_ms', retry_jitter_ms,
    'hot_keys', nullif(hot_keys, 'exact'),
    'hot_raise_percent', hot_raise_percent)) WHERE type <> 'null');

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
CREATE INDEX rules_policies_pool ON rules (policies ->> 'pool', id) WHERE policies ->> 'pool' IS NOT NULL;

-- +goose Down
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

-- What the columns cannot hold was damaged by hand, and their CHECKs end the step.
UPDATE rules SET
    elastic_percent = policies ->> 'elastic_percent',
    pool = policies ->> 'pool',
    priority = policies ->> 'priority',
    tiers = policies ->> 'tiers',
    schedule = policies ->> 'schedule',
    calendar = policies ->> 'calendar',
    active_from = coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', policies ->> 'active_from'), policies ->> 'active_from'),
    active_until = coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', policies ->> 'active_until'), policies ->> 'active_until'),
    when_expr = policies ->> 'when',
    charge_on = coalesce(policies ->> 'charge_on', 'request'),
    over_limit = coalesce(policies ->> 'over_limit', 'deny'),
    defer_bounds = policies ->> 'defer',
    candidate = policies ->> 'candidate',
    retry_jitter_ms = policies ->> 'retry_jitter_ms',
    hot_keys = coalesce(policies ->> 'hot_keys', 'exact'),
    hot_raise_percent = policies ->> 'hot_raise_percent';

DROP INDEX rules_policies_pool;
ALTER TABLE rules DROP COLUMN policies;
CREATE INDEX rules_pool_id ON rules (pool, id);
