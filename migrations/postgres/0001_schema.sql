-- +goose Up

-- +goose StatementBegin

-- One row a rule. Bounds of columns are those of the validator, so that no hand-written UPDATE can store what a decision
-- cannot use; of policies, nodes refuse what is out of bounds. policies is one JSON object by the names of the API,
-- without defaults. descriptor is a hash of the descriptor in policies; such a rule has no scope. former is what
-- limited the rule before the last edit that changed the kind of its algorithm, as JSON. seq is the version of the
-- rules that wrote the row.
CREATE TABLE rules (
    id           BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         TEXT        NOT NULL CONSTRAINT rules_name_key UNIQUE
                             CONSTRAINT rules_name_shape CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    description  TEXT        NOT NULL DEFAULT '',
    owner        TEXT,
    scope        TEXT        NOT NULL,
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
    policies     JSONB       NOT NULL DEFAULT '{}'
                             CONSTRAINT rules_policies_object CHECK (jsonb_typeof(policies) = 'object'),
    mode         TEXT        NOT NULL DEFAULT 'enforce' CHECK (mode IN ('enforce', 'shadow')),
    fail_mode    TEXT        NOT NULL DEFAULT 'open' CHECK (fail_mode IN ('open', 'closed', 'local')),
    is_active    BOOLEAN     NOT NULL DEFAULT TRUE,
    former       TEXT,
    descriptor   TEXT,
    version      BIGINT      NOT NULL DEFAULT 1 CHECK (version >= 1),
    seq          BIGINT      NOT NULL DEFAULT 0,
    created_at   TIMESTAMPTZ NOT NULL,
    updated_at   TIMESTAMPTZ NOT NULL,
    CONSTRAINT rules_scope CHECK (scope <> '' OR descriptor IS NOT NULL)
);

-- Listings filter by one of these and page by id.
CREATE INDEX rules_scope_id  ON rules (scope, id);
CREATE INDEX rules_route_id  ON rules (route, id);
CREATE INDEX rules_method_id ON rules (method, id);
CREATE INDEX rules_mode_id   ON rules (mode, id);
CREATE INDEX rules_active_id ON rules (is_active, id);
CREATE INDEX rules_owner_id  ON rules (owner, id);
CREATE INDEX rules_policies_pool ON rules ((policies ->> 'pool'), id) WHERE policies ->> 'pool' IS NOT NULL;
CREATE INDEX rules_policies_domain ON rules ((policies -> 'descriptor' ->> 'domain'), id)
    WHERE policies -> 'descriptor' ->> 'domain' IS NOT NULL;
CREATE INDEX rules_descriptor ON rules (descriptor) WHERE descriptor IS NOT NULL;
-- Nodes load what changed since a version.
CREATE INDEX rules_seq ON rules (seq);

-- Every version of every rule, and why it was made, in the words of who did; empty if they said nothing. No foreign
-- key: a deleted rule keeps its history. bulk is the version of the rules that an edit of many rules made, which is also
-- the subject_id of its audit entry; NULL for the edit of one rule.
CREATE TABLE rule_revisions (
    rule_id    BIGINT      NOT NULL,
    version    BIGINT      NOT NULL CHECK (version >= 1),
    action     TEXT        NOT NULL CHECK (action <> ''),
    actor_kind TEXT        NOT NULL CHECK (actor_kind <> ''),
    actor_name TEXT        NOT NULL CHECK (actor_name <> ''),
    at         TIMESTAMPTZ NOT NULL,
    reason     TEXT        NOT NULL DEFAULT '',
    rule       JSONB       NOT NULL,
    bulk       BIGINT,
    PRIMARY KEY (rule_id, version)
);
CREATE INDEX rule_revisions_at ON rule_revisions (at);
CREATE INDEX rule_revisions_bulk ON rule_revisions (bulk, rule_id) WHERE bulk IS NOT NULL;

-- Who changed what, complete; written in the transaction of the change.
CREATE TABLE audit_log (
    id           BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           TIMESTAMPTZ NOT NULL,
    actor_kind   TEXT        NOT NULL CHECK (actor_kind <> ''),
    actor_name   TEXT        NOT NULL CHECK (actor_name <> ''),
    action       TEXT        NOT NULL,
    subject_kind TEXT        NOT NULL CHECK (subject_kind <> ''),
    subject_id   BIGINT      NOT NULL,
    subject_name TEXT        NOT NULL,
    details      JSONB       NOT NULL
);
CREATE INDEX audit_log_subject ON audit_log (subject_kind, subject_id, id);

-- API tokens: only the SHA-256 of the secret. A name may be used again once the token that had it is revoked or rotated.
CREATE TABLE tokens (
    id         BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       TEXT        NOT NULL CHECK (name <> ''),
    hash       BYTEA       NOT NULL CONSTRAINT tokens_hash_key UNIQUE CHECK (length(hash) = 32),
    scopes     TEXT        NOT NULL CHECK (scopes <> ''),
    created_by TEXT        NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ,
    revoked_at TIMESTAMPTZ,
    replaced_at TIMESTAMPTZ
);
CREATE UNIQUE INDEX tokens_live_name ON tokens (name) WHERE revoked_at IS NULL AND replaced_at IS NULL;

-- The last use of each token, ms since the epoch. It is apart from tokens, whose changes every node loads. It has no
-- foreign key: nodes may write the use of a token that a restored backup lacks.
CREATE TABLE token_uses (
    token_id BIGINT PRIMARY KEY,
    used_at  BIGINT NOT NULL,
    endpoint TEXT   NOT NULL
);

-- Rules that were deleted, for nodes that still hold them. Old rows are dropped together with those of version_history.
CREATE TABLE rule_tombstones (
    seq     BIGINT NOT NULL,
    rule_id BIGINT NOT NULL
);
CREATE INDEX rule_tombstones_seq ON rule_tombstones (seq);

-- Capacities that rules share. Rules name them; a pool that is named stays. shed: it refuses what it has no room for.
CREATE TABLE pools (
    id             BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name           TEXT        NOT NULL CONSTRAINT pools_name_key UNIQUE
                               CONSTRAINT pools_name_shape CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    description    TEXT        NOT NULL DEFAULT '',
    limit_count    BIGINT      NOT NULL CHECK (limit_count BETWEEN 0 AND 9007199254740991),
    window_ms      BIGINT      NOT NULL CHECK (window_ms BETWEEN 1 AND 315576000000),
    normal_percent BIGINT      NOT NULL CHECK (normal_percent BETWEEN 0 AND 100),
    low_percent    BIGINT      NOT NULL CHECK (low_percent BETWEEN 0 AND 100),
    shed           BOOLEAN     NOT NULL DEFAULT FALSE,
    version        BIGINT      NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at     TIMESTAMPTZ NOT NULL,
    updated_at     TIMESTAMPTZ NOT NULL
);

-- Profiles say how the requests of gateways are read. The settings of a profile are one JSON object, by the names that
-- they have in the API; those at their defaults are left out. What they may be is for the validator.
CREATE TABLE profiles (
    id          BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        TEXT        NOT NULL CONSTRAINT profiles_name_key UNIQUE
                            CONSTRAINT profiles_name_shape CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    description TEXT        NOT NULL DEFAULT '',
    settings    JSONB       NOT NULL DEFAULT '{}'
                            CONSTRAINT profiles_settings_object CHECK (jsonb_typeof(settings) = 'object'),
    version     BIGINT      NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at  TIMESTAMPTZ NOT NULL,
    updated_at  TIMESTAMPTZ NOT NULL
);

-- The gateways that were connected in the console. A row goes with its profile. inputs are what the page was filled in
-- with, as one JSON object of texts; token_id is null for a gateway that sends no token; asked_at is when the first
-- question with the profile came.
CREATE TABLE gateways (
    profile_id BIGINT      PRIMARY KEY,
    token_id   BIGINT,
    inputs     JSONB       NOT NULL CONSTRAINT gateways_inputs_object CHECK (jsonb_typeof(inputs) = 'object'),
    asked_at   TIMESTAMPTZ
);

-- One row an override: an exception from one rule for one key. match_key is the key as it is compared, key the same for
-- people. seq is the change that wrote the row, so that nodes load only what changed.
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
    calendar    TEXT,
    reason      TEXT        NOT NULL,
    expires_at  TIMESTAMPTZ,
    version     BIGINT      NOT NULL CHECK (version >= 1),
    seq         BIGINT      NOT NULL DEFAULT 0,
    created_at  TIMESTAMPTZ NOT NULL,
    updated_at  TIMESTAMPTZ NOT NULL,
    CONSTRAINT rule_overrides_one
        CHECK (num_nonnulls(limit_count) + unlimited::INT + blocked::INT BETWEEN (calendar IS NULL)::INT AND 1),
    CONSTRAINT rule_overrides_key UNIQUE (rule_id, match_key, is_prefix)
);
CREATE INDEX rule_overrides_rule_id ON rule_overrides (rule_id, id);
CREATE INDEX rule_overrides_seq     ON rule_overrides (seq);
CREATE INDEX rule_overrides_expiry  ON rule_overrides (expires_at) WHERE expires_at IS NOT NULL;

-- Overrides that were deleted, for nodes that hold them still; an empty match_key stands for all of a rule. Old rows
-- are dropped, up to the version overrides_floor: a node that is further behind loads everything.
CREATE TABLE override_tombstones (
    seq       BIGINT      NOT NULL,
    rule_id   BIGINT      NOT NULL,
    match_key TEXT        NOT NULL,
    is_prefix BOOLEAN     NOT NULL,
    at        TIMESTAMPTZ NOT NULL
);
CREATE INDEX override_tombstones_seq ON override_tombstones (seq);
CREATE INDEX override_tombstones_at  ON override_tombstones (at);

-- People who sign in to the console. password_hash is an Argon2id string, or empty where no password lets in.
-- generation ends sessions when it grows. An account of single sign-on belongs to one subject of one issuer and has no
-- password; both are empty for all others.
CREATE TABLE users (
    id            BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name          TEXT        NOT NULL CONSTRAINT users_name_key UNIQUE CHECK (name <> ''),
    role          TEXT        NOT NULL CHECK (role IN ('viewer', 'editor', 'admin')),
    password_hash TEXT        NOT NULL,
    issuer        TEXT        NOT NULL DEFAULT '',
    subject       TEXT        NOT NULL DEFAULT '',
    disabled      BOOLEAN     NOT NULL DEFAULT FALSE,
    generation    BIGINT      NOT NULL DEFAULT 1 CHECK (generation >= 1),
    created_by    TEXT        NOT NULL,
    created_at    TIMESTAMPTZ NOT NULL,
    updated_at    TIMESTAMPTZ NOT NULL,
    last_login    TIMESTAMPTZ,
    CONSTRAINT users_identity CHECK ((issuer = '') = (subject = '') AND (issuer = '' OR password_hash = ''))
);
CREATE UNIQUE INDEX users_identity_key ON users (issuer, subject) WHERE issuer <> '';

-- Sessions of the console, by the hash of what the cookie holds.
CREATE TABLE sessions (
    token      TEXT        NOT NULL PRIMARY KEY,
    data       BYTEA       NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX sessions_expires_at ON sessions (expires_at);

-- What each process decided in an hour, by rule, in packed rows (see internal/history). A row is written about 60 times:
-- pages keep room for that, and the space of old versions must be free for the next ones soon. tops are the most active
-- keys, routes and tenants.
CREATE TABLE stats_live (
    rule   TEXT   NOT NULL,
    hour   BIGINT NOT NULL,
    writer BIGINT NOT NULL,
    data   BYTEA  NOT NULL,
    tops   BYTEA,
    PRIMARY KEY (rule, hour, writer)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
CREATE INDEX stats_live_hour ON stats_live (hour);

-- The same of all processes, added up after a few hours: by kind, rule and period.
CREATE TABLE stats (
    kind   SMALLINT NOT NULL,
    rule   TEXT     NOT NULL,
    period BIGINT   NOT NULL,
    data   BYTEA    NOT NULL,
    tops   BYTEA,
    PRIMARY KEY (kind, rule, period)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
CREATE INDEX stats_kind_period ON stats (kind, period);

-- What each key of a rule has spent in a period, as the counters had it at seen by the clock of the counter store. period
-- is when it began. Times are in ms since 1970, key is the part of the bucket's key before the rule.
CREATE TABLE usage (
    rule   BIGINT NOT NULL,
    period BIGINT NOT NULL,
    key    TEXT   NOT NULL,
    spent  BIGINT NOT NULL,
    seen   BIGINT NOT NULL,
    PRIMARY KEY (rule, period, key)
);

-- When the counters were found to be lost, in ms since 1970; 0 for never, or once they are restored.
CREATE TABLE usage_state (
    id      SMALLINT PRIMARY KEY CHECK (id = 1),
    lost_at BIGINT NOT NULL
);
INSERT INTO usage_state (id, lost_at) VALUES (1, 0);

-- What happened on nodes, in ms since 1970: at is when it began, ended when it ended, 0 while it lasts.
CREATE TABLE events (
    id    TEXT PRIMARY KEY,
    kind  TEXT NOT NULL,
    at    BIGINT NOT NULL,
    ended BIGINT NOT NULL,
    node  TEXT NOT NULL,
    data  TEXT NOT NULL
);
CREATE INDEX events_at ON events (at);

-- The key with which every node hashes credentials in the decision log, so that equal values have equal hashes.
CREATE TABLE record_key (
    id  SMALLINT PRIMARY KEY CHECK (id = 1),
    key BYTEA NOT NULL
);

-- Webhooks are where alerts go. The settings of a webhook are one JSON object, by the names that they have in the API.
-- secret signs what is sent; old_secret signs it too until old_until (ms since 1970), after a rotation. disabled says
-- why Sluice made a webhook inactive by itself.
CREATE TABLE webhooks (
    id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        TEXT NOT NULL CONSTRAINT webhooks_name_key UNIQUE
                            CONSTRAINT webhooks_name_shape CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    description TEXT NOT NULL DEFAULT '',
    settings    JSONB       NOT NULL DEFAULT '{}'
                            CONSTRAINT webhooks_settings_object CHECK (jsonb_typeof(settings) = 'object'),
    secret      TEXT NOT NULL DEFAULT '',
    old_secret  TEXT NOT NULL DEFAULT '',
    old_until   BIGINT NOT NULL DEFAULT 0,
    disabled    TEXT NOT NULL DEFAULT '',
    version     BIGINT NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at  TIMESTAMPTZ NOT NULL,
    updated_at  TIMESTAMPTZ NOT NULL
);

-- Which node evaluates alerts, until when unless it renews that; ms since 1970.
CREATE TABLE alert_lease (
    id         SMALLINT PRIMARY KEY CHECK (id = 1),
    holder     TEXT NOT NULL,
    held_until BIGINT NOT NULL
);
INSERT INTO alert_lease (id, holder, held_until) VALUES (1, '', 0);

-- What single nodes have seen, for the node that evaluates. uid keeps a repeated write from counting twice, so that a
-- row stays for a while after it was read; read_at is when, in ms since 1970, and 0 before that.
CREATE TABLE alert_reports (
    id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uid     TEXT NOT NULL CONSTRAINT alert_reports_uid UNIQUE,
    data    TEXT NOT NULL,
    read_at BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX alert_reports_unread ON alert_reports (id) WHERE read_at = 0;

-- Which conditions are met, and when that was last told.
CREATE TABLE alert_states (
    subject TEXT PRIMARY KEY,
    data    TEXT NOT NULL
);

-- The alerts of the last weeks; at is in ms since 1970.
CREATE TABLE alert_events (
    id   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uid  TEXT NOT NULL CONSTRAINT alert_events_uid UNIQUE,
    at   BIGINT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL
);

-- Messages to webhooks. state is 0 while a message waits, 1 when it was delivered, 2 when it was given up. Times are in
-- ms since 1970; next_at is when it is sent again, 0 before the first attempt; ended is when it left state 0. The
-- messages about a subject are sent in order.
CREATE TABLE alert_deliveries (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message    TEXT NOT NULL,
    webhook_id BIGINT NOT NULL,
    subject    TEXT NOT NULL,
    kind       TEXT NOT NULL,
    body       TEXT NOT NULL,
    created    BIGINT NOT NULL,
    next_at    BIGINT NOT NULL DEFAULT 0,
    state      SMALLINT NOT NULL DEFAULT 0,
    attempts   BIGINT NOT NULL DEFAULT 0,
    status     BIGINT NOT NULL DEFAULT 0,
    error      TEXT NOT NULL DEFAULT '',
    took_ms    BIGINT NOT NULL DEFAULT 0,
    tried      BIGINT NOT NULL DEFAULT 0,
    ended      BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT alert_deliveries_message UNIQUE (webhook_id, message)
);
CREATE INDEX alert_deliveries_webhook ON alert_deliveries (webhook_id, id);
CREATE INDEX alert_deliveries_tried ON alert_deliveries (webhook_id, tried);
CREATE INDEX alert_deliveries_waiting ON alert_deliveries (webhook_id, subject, id) WHERE state = 0;
CREATE INDEX alert_deliveries_due ON alert_deliveries (webhook_id, next_at, id) WHERE state = 0;

-- Silences and acknowledgements of alerts. acknowledges is the uid of the alert that one acknowledges, '' for a silence;
-- an empty rule, key or level means any. ends_at is in ms since 1970. Nodes do not keep them in memory.
CREATE TABLE alert_silences (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    acknowledges TEXT        NOT NULL DEFAULT '',
    kind         TEXT        NOT NULL,
    rule         TEXT        NOT NULL DEFAULT '',
    key          TEXT        NOT NULL DEFAULT '',
    level        TEXT        NOT NULL DEFAULT '',
    reason       TEXT        NOT NULL CHECK (reason <> ''),
    ends_at      BIGINT      NOT NULL,
    created_by   TEXT        NOT NULL,
    version      BIGINT      NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at   TIMESTAMPTZ NOT NULL,
    updated_at   TIMESTAMPTZ NOT NULL
);

-- Filters of pages of the console that people saved under a name.
CREATE TABLE saved_views (
    id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name    TEXT   NOT NULL CHECK (name <> ''),
    path    TEXT   NOT NULL,
    query   TEXT   NOT NULL,
    CONSTRAINT saved_views_name_key UNIQUE (user_id, path, name)
);

-- A random id of this database. Copies, replicas and restored backups keep it. Nodes compare it through Redis, because
-- nodes of different databases must not share counters.
CREATE TABLE database_id (
    id    SMALLINT PRIMARY KEY CHECK (id = 1),
    value TEXT NOT NULL CHECK (length(value) = 32)
);
INSERT INTO database_id (id, value) VALUES (1, replace(gen_random_uuid()::text, '-', ''));

-- Counts changes, so that a node learns with one small query whether to reload. The row is also the lock that puts
-- writers in one line. stamp is random and new with each version: a database that comes back without its last change
-- reaches the same number again, but never the same stamp.
CREATE TABLE versions (
    name    TEXT   PRIMARY KEY,
    version BIGINT NOT NULL CHECK (version >= 0),
    stamp   TEXT   NOT NULL DEFAULT ''
);

-- The versions that this database has had. A node may load only what changed since a version that is among them, with
-- the stamp that the node holds.
CREATE TABLE version_history (
    name    TEXT   NOT NULL,
    version BIGINT NOT NULL,
    stamp   TEXT   NOT NULL,
    PRIMARY KEY (name, version)
);

-- Functions run with the search path of this migration, whoever calls them.

CREATE FUNCTION sluice_stamp() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    NEW.stamp := gen_random_uuid()::text;
    IF NEW.name IN ('rules', 'overrides') THEN
        INSERT INTO version_history (name, version, stamp) VALUES (NEW.name, NEW.version, NEW.stamp)
            ON CONFLICT (name, version) DO UPDATE SET stamp = excluded.stamp;
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER sluice_stamp BEFORE INSERT OR UPDATE OF version ON versions
    FOR EACH ROW EXECUTE FUNCTION sluice_stamp();

INSERT INTO versions (name, version) VALUES ('rules', 0), ('tokens', 0), ('overrides', 0), ('overrides_floor', 0), ('users', 0),
    ('webhooks', 0);

-- Nodes keep in memory what the tables below hold. A change that bumped its version first comes from a node. For any
-- other the triggers bump the version, notify the nodes and write an audit entry by the actor "database".

-- sluice_bump is the version that this transaction gives to an area. The row's xmin tells whether the transaction has
-- bumped it already.
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

-- sluice_audit writes one entry for one statement of a transaction that bumped by sluice_bump: about a row if there is
-- one, else about as many as there are.
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

-- sluice_lock puts a writer in the line of all writers before it locks a row, as nodes do, so that no two wait for each
-- other.
CREATE FUNCTION sluice_lock() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM 1 FROM versions WHERE name = TG_ARGV[0] FOR UPDATE;
    RETURN NULL;
END $$;

-- sluice_changed follows a statement on a table of rows with id and name. Arguments: the area and the kind of subject.
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

-- sluice_overrides_changed is the same for overrides. Deleting what has ended, or what belongs to no rule, changes
-- nothing.
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

-- sluice_truncated: nobody knows what was there, so every node loads everything.
CREATE FUNCTION sluice_truncated() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v BIGINT := sluice_bump(TG_ARGV[0]);
BEGIN
    DELETE FROM version_history WHERE name = TG_ARGV[0] AND version < v;
    PERFORM sluice_audit(TG_ARGV[2], TG_ARGV[1], NULL, '', TG_TABLE_NAME);
    RETURN NULL;
END $$;

DO $$
DECLARE
    t RECORD;
BEGIN
    FOR t IN SELECT * FROM (VALUES
        ('rules',          'rules',     'rule',  'sluice_changed',           'delete'),
        ('pools',          'rules',     'pool',  'sluice_changed',           'delete'),
        ('profiles',       'rules',     'profile', 'sluice_changed',         'delete'),
        ('webhooks',       'webhooks',  'webhook', 'sluice_changed',         'delete'),
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
