-- +goose Up

-- The policies of a rule are one JSON object, by the names that they have in the
-- API; those at their defaults are left out. What they may be is for the validator.
--
-- Nodes of the release before read and write the columns of step 2, so those stay
-- beside it, and a trigger keeps both sides in step. A later release drops them
-- (elastic_percent to hot_raise_percent) with rules_pool_id, the triggers and the
-- three functions of this step; a build that allows more than their CHECKs do
-- must come after that.

-- Stand in the line of writers first, as they do, so that none waits for the other.
SELECT 1 FROM versions WHERE name = 'rules' FOR UPDATE;

ALTER TABLE rules ADD COLUMN policies JSONB NOT NULL DEFAULT '{}'
    CONSTRAINT rules_policies_object CHECK (jsonb_typeof(policies) = 'object');
CREATE INDEX rules_policies_pool ON rules ((policies ->> 'pool'), id) WHERE policies ->> 'pool' IS NOT NULL;

-- sluice_policy_json is the JSON of a column that holds JSON as text. What was
-- damaged by hand becomes a string, which no node takes for a policy.
-- +goose StatementBegin
CREATE FUNCTION sluice_policy_json(document TEXT) RETURNS JSONB LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v JSONB;
BEGIN
    IF document IS NULL THEN
        RETURN NULL;
    END IF;
    BEGIN
        v := document::JSONB;
        IF jsonb_typeof(v) IN ('object', 'null') THEN
            RETURN v;
        END IF;
    EXCEPTION WHEN OTHERS THEN
        NULL; -- not JSON
    END;
    RETURN to_jsonb(document);
END $$;
-- +goose StatementEnd

-- sluice_policies are the policies that the old columns of a row hold.
-- +goose StatementBegin
CREATE FUNCTION sluice_policies(r rules) RETURNS JSONB LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(jsonb_build_object(
        'elastic_percent', r.elastic_percent,
        'pool', r.pool,
        'priority', r.priority,
        'tiers', sluice_policy_json(r.tiers),
        'schedule', sluice_policy_json(r.schedule),
        'calendar', sluice_policy_json(r.calendar),
        'active_from', to_char(r.active_from AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'active_until', to_char(r.active_until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'when', r.when_expr,
        'charge_on', nullif(r.charge_on, 'request'),
        'over_limit', nullif(r.over_limit, 'deny'),
        'defer', sluice_policy_json(r.defer_bounds),
        'candidate', sluice_policy_json(r.candidate),
        'retry_jitter_ms', r.retry_jitter_ms,
        'hot_keys', nullif(r.hot_keys, 'exact'),
        'hot_raise_percent', r.hot_raise_percent)) WHERE value <> 'null');
END $$;
-- +goose StatementEnd

-- Nothing changes for nodes, so this is no change by hand.
ALTER TABLE rules DISABLE TRIGGER sluice_update;
UPDATE rules SET policies = sluice_policies(rules)
    WHERE (charge_on, over_limit, hot_keys) <> ('request', 'deny', 'exact')
        OR num_nonnulls(elastic_percent, pool, priority, tiers, schedule, calendar, active_from, active_until,
            when_expr, defer_bounds, candidate, retry_jitter_ms, hot_raise_percent) > 0;
ALTER TABLE rules ENABLE TRIGGER sluice_update;

-- sluice_policies_in_step follows the side that a statement wrote: policies where
-- they are given or changed, else the old columns. Members that those do not know
-- stay.
-- +goose StatementBegin
CREATE FUNCTION sluice_policies_in_step() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    p JSONB := NEW.policies;
BEGIN
    IF (p = CASE TG_OP WHEN 'INSERT' THEN '{}' ELSE OLD.policies END) THEN
        NEW.policies := p - '{elastic_percent,pool,priority,tiers,schedule,calendar,active_from,active_until,
            when,charge_on,over_limit,defer,candidate,retry_jitter_ms,hot_keys,hot_raise_percent}'::TEXT[]
            || sluice_policies(NEW);
        RETURN NEW;
    END IF;
    NEW.elastic_percent   := p ->> 'elastic_percent';
    NEW.pool              := p ->> 'pool';
    NEW.priority          := p ->> 'priority';
    NEW.tiers             := p ->> 'tiers';
    NEW.schedule          := p ->> 'schedule';
    NEW.calendar          := p ->> 'calendar';
    NEW.active_from       := p ->> 'active_from';
    NEW.active_until      := p ->> 'active_until';
    NEW.when_expr         := p ->> 'when';
    NEW.charge_on         := coalesce(p ->> 'charge_on', 'request');
    NEW.over_limit        := coalesce(p ->> 'over_limit', 'deny');
    NEW.defer_bounds      := p ->> 'defer';
    NEW.candidate         := p ->> 'candidate';
    NEW.retry_jitter_ms   := p ->> 'retry_jitter_ms';
    NEW.hot_keys          := coalesce(p ->> 'hot_keys', 'exact');
    NEW.hot_raise_percent := p ->> 'hot_raise_percent';
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- The conditions spare rules without policies, and edits of other fields, the call.
CREATE TRIGGER sluice_policies_insert BEFORE INSERT ON rules FOR EACH ROW
    WHEN ((NEW.policies, NEW.charge_on, NEW.over_limit, NEW.hot_keys) IS DISTINCT FROM ('{}', 'request', 'deny', 'exact')
        OR num_nonnulls(NEW.elastic_percent, NEW.pool, NEW.priority, NEW.tiers, NEW.schedule, NEW.calendar,
            NEW.active_from, NEW.active_until, NEW.when_expr, NEW.defer_bounds, NEW.candidate, NEW.retry_jitter_ms,
            NEW.hot_raise_percent) > 0)
    EXECUTE FUNCTION sluice_policies_in_step();
CREATE TRIGGER sluice_policies_update BEFORE UPDATE ON rules FOR EACH ROW
    WHEN ((NEW.policies, NEW.elastic_percent, NEW.pool, NEW.priority, NEW.tiers, NEW.schedule, NEW.calendar,
            NEW.active_from, NEW.active_until, NEW.when_expr, NEW.charge_on, NEW.over_limit, NEW.defer_bounds,
            NEW.candidate, NEW.retry_jitter_ms, NEW.hot_keys, NEW.hot_raise_percent)
        IS DISTINCT FROM
        (OLD.policies, OLD.elastic_percent, OLD.pool, OLD.priority, OLD.tiers, OLD.schedule, OLD.calendar,
            OLD.active_from, OLD.active_until, OLD.when_expr, OLD.charge_on, OLD.over_limit, OLD.defer_bounds,
            OLD.candidate, OLD.retry_jitter_ms, OLD.hot_keys, OLD.hot_raise_percent))
    EXECUTE FUNCTION sluice_policies_in_step();

-- +goose Down

-- The columns hold all of it already, but what they do not know.
DROP TRIGGER sluice_policies_update ON rules;
DROP TRIGGER sluice_policies_insert ON rules;
DROP FUNCTION sluice_policies_in_step();
DROP FUNCTION sluice_policies(rules);
DROP FUNCTION sluice_policy_json(TEXT);
ALTER TABLE rules DROP COLUMN policies;
