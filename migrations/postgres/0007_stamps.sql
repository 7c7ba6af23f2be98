-- +goose Up

-- Beside each version stands a random stamp, new with each version. A database
-- that comes back without its last change reaches the same number again, but
-- never the same stamp.
ALTER TABLE versions ADD COLUMN stamp TEXT NOT NULL DEFAULT '';

-- The versions that this database has had. A node may load only what changed
-- since a version that is among them, with the stamp that the node holds.
CREATE TABLE version_history (
    name    TEXT   NOT NULL,
    version BIGINT NOT NULL,
    stamp   TEXT   NOT NULL,
    PRIMARY KEY (name, version)
);

-- Functions run with the search path of this migration, whoever calls them.

-- +goose StatementBegin
CREATE FUNCTION sluice_stamp() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    NEW.stamp := gen_random_uuid()::text;
    IF NEW.name IN ('rules', 'overrides') THEN
        INSERT INTO version_history (name, version, stamp) VALUES (NEW.name, NEW.version, NEW.stamp)
            ON CONFLICT (name, version) DO UPDATE SET stamp = excluded.stamp;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER sluice_stamp BEFORE INSERT OR UPDATE OF version ON versions
    FOR EACH ROW EXECUTE FUNCTION sluice_stamp();
UPDATE versions SET version = version;

-- seq is the version of the rules that wrote the row, so that nodes load only
-- what changed. Who writes overrides by hand need not know theirs.
ALTER TABLE rules ADD COLUMN seq BIGINT NOT NULL DEFAULT 0;
CREATE INDEX rules_seq ON rules (seq);
ALTER TABLE rule_overrides ALTER COLUMN seq SET DEFAULT 0;

-- Rules that were deleted, for nodes that still hold them. Old rows are dropped
-- together with those of version_history.
CREATE TABLE rule_tombstones (
    seq     BIGINT NOT NULL,
    rule_id BIGINT NOT NULL
);
CREATE INDEX rule_tombstones_seq ON rule_tombstones (seq);

-- Nodes keep in memory what the tables below hold. A change that bumped its
-- version first comes from a node. For any other the triggers bump the version,
-- notify the nodes and write an audit entry by the actor "database".

-- sluice_bump is the version that this transaction gives to an area. The row's
-- xmin tells whether the transaction has bumped it already.
-- +goose StatementBegin
CREATE FUNCTION sluice_bump(area TEXT) RETURNS BIGINT LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v      BIGINT;
    bumped BOOLEAN;
BEGIN
    SELECT version, xmin::text = (txid_current() % 4294967296)::text INTO v, bumped
        FROM versions WHERE name = area FOR UPDATE;
    IF NOT bumped THEN
        UPDATE versions SET version = version + 1 WHERE name = area RETURNING version INTO v;
        PERFORM set_config('sluice.by_hand', 'on', true), pg_notify('sluice_changes', area);
    END IF;
    RETURN v;
END $$;
-- +goose StatementEnd

-- sluice_audit writes one entry for one statement of a transaction that bumped
-- by sluice_bump: about a row if there is one, else about as many as there are.
-- +goose StatementBegin
CREATE FUNCTION sluice_audit(entry_action TEXT, subject TEXT, ids BIGINT[], row_name TEXT, table_name TEXT)
    RETURNS VOID LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    n BIGINT := coalesce(cardinality(ids), 0);
BEGIN
    IF current_setting('sluice.by_hand', true) IS DISTINCT FROM 'on' THEN
        RETURN;
    END IF;
    INSERT INTO audit_log (at, actor_kind, actor_name, action, subject_kind, subject_id, subject_name, details)
        VALUES (date_trunc('milliseconds', clock_timestamp()), 'database', session_user, entry_action, subject,
            CASE WHEN n = 1 THEN ids[1] ELSE 0 END,
            CASE WHEN ids IS NULL THEN 'all rows' WHEN n = 1 THEN coalesce(row_name, '') ELSE n || ' rows' END,
            jsonb_build_object('table', table_name, 'rows', CASE WHEN ids IS NULL THEN NULL ELSE n END,
                'ids', to_jsonb(ids[1:100])));
END $$;
-- +goose StatementEnd

-- sluice_lock puts a writer in the line of all writers before it locks a row,
-- as nodes do, so that no two wait for each other.
-- +goose StatementBegin
CREATE FUNCTION sluice_lock() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM 1 FROM versions WHERE name = TG_ARGV[0] FOR UPDATE;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- sluice_changed follows a statement on a table of rows with id and name.
-- Arguments: the area and the kind of subject.
-- +goose StatementBegin
CREATE FUNCTION sluice_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v         BIGINT;
    ids       BIGINT[];
    row_name  TEXT;
    unheeded  CONSTANT TEXT[] := '{seq,last_login}'; -- columns that change nothing
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT array_agg(id ORDER BY id), min(name) INTO ids, row_name FROM new_rows;
    ELSIF TG_OP = 'UPDATE' THEN
        SELECT array_agg(n.id ORDER BY n.id), min(n.name) INTO ids, row_name
            FROM new_rows n LEFT JOIN old_rows o ON o.id = n.id
            WHERE to_jsonb(n) - unheeded IS DISTINCT FROM to_jsonb(o) - unheeded;
    ELSE
        SELECT array_agg(id ORDER BY id), min(name) INTO ids, row_name FROM old_rows;
    END IF;
    IF ids IS NULL THEN
        RETURN NULL;
    END IF;
    v := sluice_bump(TG_ARGV[0]);
    IF TG_TABLE_NAME = 'rules' AND TG_OP = 'DELETE' THEN
        INSERT INTO rule_tombstones (seq, rule_id) SELECT v, id FROM old_rows;
    ELSIF TG_TABLE_NAME = 'rules' THEN
        UPDATE rules SET seq = v WHERE id IN (SELECT id FROM new_rows WHERE seq <> v);
    END IF;
    PERFORM sluice_audit(CASE TG_OP WHEN 'INSERT' THEN 'create' WHEN 'UPDATE' THEN 'update' ELSE 'delete' END,
        TG_ARGV[1], ids, row_name, TG_TABLE_NAME);
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- sluice_overrides_changed is the same for overrides. Deleting what has ended, or
-- what belongs to no rule, changes nothing.
-- +goose StatementBegin
CREATE FUNCTION sluice_overrides_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v        BIGINT;
    total    BIGINT;
    rule_ids BIGINT[];
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT count(*), array_agg(DISTINCT rule_id) INTO total, rule_ids FROM new_rows;
    ELSIF TG_OP = 'UPDATE' THEN
        SELECT count(*), array_agg(DISTINCT n.rule_id) INTO total, rule_ids FROM new_rows n LEFT JOIN old_rows o ON o.id = n.id
            WHERE (n.rule_id, n.key, n.match_key, n.is_prefix, n.limit_count, n.burst, n.unlimited, n.blocked, n.reason, n.expires_at)
                IS DISTINCT FROM
                (o.rule_id, o.key, o.match_key, o.is_prefix, o.limit_count, o.burst, o.unlimited, o.blocked, o.reason, o.expires_at);
    ELSE
        SELECT count(*), array_agg(DISTINCT o.rule_id) INTO total, rule_ids FROM old_rows o
            WHERE (o.expires_at IS NULL OR o.expires_at > now()) AND EXISTS (SELECT FROM rules r WHERE r.id = o.rule_id);
    END IF;
    IF total = 0 THEN
        RETURN NULL;
    END IF;
    v := sluice_bump('overrides');
    IF TG_OP <> 'DELETE' THEN
        UPDATE rule_overrides SET seq = v WHERE id IN (SELECT id FROM new_rows WHERE seq <> v);
    END IF;
    IF current_setting('sluice.by_hand', true) IS DISTINCT FROM 'on' THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'DELETE' THEN
        INSERT INTO override_tombstones (seq, rule_id, match_key, is_prefix, at)
            SELECT v, rule_id, match_key, is_prefix, now() FROM old_rows;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO override_tombstones (seq, rule_id, match_key, is_prefix, at)
            SELECT v, o.rule_id, o.match_key, o.is_prefix, now() FROM old_rows o
            WHERE NOT EXISTS (SELECT FROM new_rows n WHERE n.rule_id = o.rule_id AND n.match_key = o.match_key AND n.is_prefix = o.is_prefix);
    END IF;
    PERFORM sluice_audit('override_' || CASE TG_OP WHEN 'INSERT' THEN 'create' WHEN 'UPDATE' THEN 'update' ELSE 'delete' END,
        'rule', rule_ids, (SELECT name FROM rules WHERE id = rule_ids[1]), TG_TABLE_NAME);
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- sluice_truncated: nobody knows what was there, so every node loads everything.
-- +goose StatementBegin
CREATE FUNCTION sluice_truncated() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v BIGINT := sluice_bump(TG_ARGV[0]);
BEGIN
    DELETE FROM version_history WHERE name = TG_ARGV[0] AND version < v;
    PERFORM sluice_audit(TG_ARGV[2], TG_ARGV[1], NULL, '', TG_TABLE_NAME);
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
DECLARE
    t RECORD;
BEGIN
    FOR t IN SELECT * FROM (VALUES
        ('rules',          'rules',     'rule',  'sluice_changed',           'delete'),
        ('pools',          'rules',     'pool',  'sluice_changed',           'delete'),
        ('tokens',         'tokens',    'token', 'sluice_changed',           'delete'),
        ('users',          'users',     'user',  'sluice_changed',           'delete'),
        ('rule_overrides', 'overrides', 'rule',  'sluice_overrides_changed', 'override_delete')
    ) AS list (name, area, subject, changed, emptied) LOOP
        EXECUTE format('CREATE TRIGGER sluice_lock BEFORE INSERT OR UPDATE OR DELETE ON %I
            FOR EACH STATEMENT EXECUTE FUNCTION sluice_lock(%L)', t.name, t.area);
        EXECUTE format('CREATE TRIGGER sluice_insert AFTER INSERT ON %I REFERENCING NEW TABLE AS new_rows
            FOR EACH STATEMENT EXECUTE FUNCTION %I(%L, %L)', t.name, t.changed, t.area, t.subject);
        EXECUTE format('CREATE TRIGGER sluice_update AFTER UPDATE ON %I REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
            FOR EACH STATEMENT EXECUTE FUNCTION %I(%L, %L)', t.name, t.changed, t.area, t.subject);
        EXECUTE format('CREATE TRIGGER sluice_delete AFTER DELETE ON %I REFERENCING OLD TABLE AS old_rows
            FOR EACH STATEMENT EXECUTE FUNCTION %I(%L, %L)', t.name, t.changed, t.area, t.subject);
        EXECUTE format('CREATE TRIGGER sluice_truncate AFTER TRUNCATE ON %I
            FOR EACH STATEMENT EXECUTE FUNCTION sluice_truncated(%L, %L, %L)', t.name, t.area, t.subject, t.emptied);
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
DO $$
DECLARE
    t TEXT;
    g TEXT;
BEGIN
    FOREACH t IN ARRAY ARRAY['rules', 'pools', 'tokens', 'users', 'rule_overrides'] LOOP
        FOREACH g IN ARRAY ARRAY['sluice_lock', 'sluice_insert', 'sluice_update', 'sluice_delete', 'sluice_truncate'] LOOP
            EXECUTE format('DROP TRIGGER %I ON %I', g, t);
        END LOOP;
    END LOOP;
END $$;
-- +goose StatementEnd
DROP FUNCTION sluice_truncated();
DROP FUNCTION sluice_overrides_changed();
DROP FUNCTION sluice_changed();
DROP FUNCTION sluice_lock();
DROP FUNCTION sluice_audit(TEXT, TEXT, BIGINT[], TEXT, TEXT);
DROP FUNCTION sluice_bump(TEXT);
DROP TABLE rule_tombstones;
ALTER TABLE rule_overrides ALTER COLUMN seq DROP DEFAULT;
DROP INDEX rules_seq;
ALTER TABLE rules DROP COLUMN seq;
DROP TRIGGER sluice_stamp ON versions;
DROP FUNCTION sluice_stamp();
DROP TABLE version_history;
ALTER TABLE versions DROP COLUMN stamp;
