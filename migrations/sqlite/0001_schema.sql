-- +goose Up

-- What each table is for stands in ../postgres/0001_schema.sql. STRICT keeps text out of integer columns; times are
-- text in UTC with milliseconds, 2026-11-21T12:00:00.000Z, which also sorts by time. AUTOINCREMENT never gives an id
-- twice.

-- +goose StatementBegin
CREATE TABLE rules (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    name         TEXT    NOT NULL CONSTRAINT rules_name_key UNIQUE
                         CONSTRAINT rules_name_shape CHECK (length(name) <= 63 AND name GLOB '[a-z0-9]*' AND name NOT GLOB '*[^a-z0-9._-]*'),
    description  TEXT    NOT NULL DEFAULT '',
    owner        TEXT,
    scope        TEXT    NOT NULL,
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
    policies     TEXT    NOT NULL DEFAULT '{}'
                         CONSTRAINT rules_policies_object CHECK (json_valid(policies) AND json_type(policies) = 'object'),
    mode         TEXT    NOT NULL DEFAULT 'enforce' CHECK (mode IN ('enforce', 'shadow')),
    fail_mode    TEXT    NOT NULL DEFAULT 'open' CHECK (fail_mode IN ('open', 'closed', 'local')),
    is_active    INTEGER NOT NULL DEFAULT 1 CHECK (is_active IN (0, 1)),
    former       TEXT,
    descriptor   TEXT,
    version      INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    seq          INTEGER NOT NULL DEFAULT 0,
    created_at   TEXT    NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.___Z'),
    updated_at   TEXT    NOT NULL CHECK (updated_at LIKE '____-__-__T__:__:__.___Z'),
    CONSTRAINT rules_scope CHECK (scope <> '' OR descriptor IS NOT NULL)
) STRICT;

CREATE INDEX rules_scope_id  ON rules (scope, id);
CREATE INDEX rules_route_id  ON rules (route, id);
CREATE INDEX rules_method_id ON rules (method, id);
CREATE INDEX rules_mode_id   ON rules (mode, id);
CREATE INDEX rules_active_id ON rules (is_active, id);
CREATE INDEX rules_owner_id  ON rules (owner, id);
CREATE INDEX rules_policies_pool ON rules (policies ->> 'pool', id) WHERE policies ->> 'pool' IS NOT NULL;
CREATE INDEX rules_policies_domain ON rules (policies -> 'descriptor' ->> 'domain', id)
    WHERE policies -> 'descriptor' ->> 'domain' IS NOT NULL;
CREATE INDEX rules_descriptor ON rules (descriptor) WHERE descriptor IS NOT NULL;
CREATE INDEX rules_seq ON rules (seq);

CREATE TABLE rule_revisions (
    rule_id    INTEGER NOT NULL,
    version    INTEGER NOT NULL CHECK (version >= 1),
    action     TEXT    NOT NULL CHECK (action <> ''),
    actor_kind TEXT    NOT NULL CHECK (actor_kind <> ''),
    actor_name TEXT    NOT NULL CHECK (actor_name <> ''),
    at         TEXT    NOT NULL CHECK (at LIKE '____-__-__T__:__:__.___Z'),
    reason     TEXT    NOT NULL DEFAULT '',
    rule       TEXT    NOT NULL CHECK (json_valid(rule)),
    bulk       INTEGER,
    PRIMARY KEY (rule_id, version)
) STRICT;
CREATE INDEX rule_revisions_at ON rule_revisions (at);
CREATE INDEX rule_revisions_bulk ON rule_revisions (bulk, rule_id) WHERE bulk IS NOT NULL;

CREATE TABLE audit_log (
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
CREATE INDEX audit_log_subject ON audit_log (subject_kind, subject_id, id);

CREATE TABLE tokens (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT    NOT NULL CHECK (name <> ''),
    hash       BLOB    NOT NULL CONSTRAINT tokens_hash_key UNIQUE CHECK (length(hash) = 32),
    scopes     TEXT    NOT NULL CHECK (scopes <> ''),
    created_by TEXT    NOT NULL,
    created_at TEXT    NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.___Z'),
    expires_at TEXT    CHECK (expires_at LIKE '____-__-__T__:__:__.___Z'),
    revoked_at TEXT    CHECK (revoked_at LIKE '____-__-__T__:__:__.___Z'),
    replaced_at TEXT   CHECK (replaced_at LIKE '____-__-__T__:__:__.___Z')
) STRICT;
CREATE UNIQUE INDEX tokens_live_name ON tokens (name) WHERE revoked_at IS NULL AND replaced_at IS NULL;

CREATE TABLE token_uses (
    token_id INTEGER PRIMARY KEY,
    used_at  INTEGER NOT NULL,
    endpoint TEXT    NOT NULL
) STRICT;

CREATE TABLE rule_tombstones (
    seq     INTEGER NOT NULL,
    rule_id INTEGER NOT NULL
) STRICT;
CREATE INDEX rule_tombstones_seq ON rule_tombstones (seq);

CREATE TABLE pools (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT    NOT NULL CONSTRAINT pools_name_key UNIQUE
                           CONSTRAINT pools_name_shape CHECK (length(name) <= 63 AND name GLOB '[a-z0-9]*' AND name NOT GLOB '*[^a-z0-9._-]*'),
    description    TEXT    NOT NULL DEFAULT '',
    limit_count    INTEGER NOT NULL CHECK (limit_count BETWEEN 0 AND 9007199254740991),
    window_ms      INTEGER NOT NULL CHECK (window_ms BETWEEN 1 AND 315576000000),
    normal_percent INTEGER NOT NULL CHECK (normal_percent BETWEEN 0 AND 100),
    low_percent    INTEGER NOT NULL CHECK (low_percent BETWEEN 0 AND 100),
    shed           INTEGER NOT NULL DEFAULT 0 CHECK (shed IN (0, 1)),
    version        INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at     TEXT    NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.___Z'),
    updated_at     TEXT    NOT NULL CHECK (updated_at LIKE '____-__-__T__:__:__.___Z')
) STRICT;

CREATE TABLE profiles (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT    NOT NULL CONSTRAINT profiles_name_key UNIQUE
                        CONSTRAINT profiles_name_shape CHECK (length(name) <= 63 AND name GLOB '[a-z0-9]*' AND name NOT GLOB '*[^a-z0-9._-]*'),
    description TEXT    NOT NULL DEFAULT '',
    settings    TEXT    NOT NULL DEFAULT '{}'
                        CONSTRAINT profiles_settings_object CHECK (json_valid(settings) AND json_type(settings) = 'object'),
    version     INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at  TEXT    NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.___Z'),
    updated_at  TEXT    NOT NULL CHECK (updated_at LIKE '____-__-__T__:__:__.___Z')
) STRICT;

CREATE TABLE gateways (
    profile_id INTEGER PRIMARY KEY,
    token_id   INTEGER,
    inputs     TEXT    NOT NULL CONSTRAINT gateways_inputs_object CHECK (json_valid(inputs) AND json_type(inputs) = 'object'),
    asked_at   TEXT    CHECK (asked_at LIKE '____-__-__T__:__:__.___Z')
) STRICT;

CREATE TABLE rule_overrides (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    rule_id     INTEGER NOT NULL,
    key         TEXT    NOT NULL CHECK (key <> ''),
    match_key   TEXT    NOT NULL CHECK (match_key <> ''),
    is_prefix   INTEGER NOT NULL CHECK (is_prefix IN (0, 1)),
    limit_count INTEGER CHECK (limit_count BETWEEN 0 AND 9007199254740991),
    burst       INTEGER CHECK (burst IS NULL OR limit_count IS NOT NULL AND burst BETWEEN 0 AND 9007199254740991),
    unlimited   INTEGER NOT NULL CHECK (unlimited IN (0, 1)),
    blocked     INTEGER NOT NULL CHECK (blocked IN (0, 1)),
    calendar    TEXT,
    reason      TEXT    NOT NULL,
    expires_at  TEXT    CHECK (expires_at LIKE '____-__-__T__:__:__.___Z'),
    version     INTEGER NOT NULL CHECK (version >= 1),
    seq         INTEGER NOT NULL,
    created_at  TEXT    NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.___Z'),
    updated_at  TEXT    NOT NULL CHECK (updated_at LIKE '____-__-__T__:__:__.___Z'),
    CONSTRAINT rule_overrides_one
        CHECK ((limit_count IS NOT NULL) + unlimited + blocked BETWEEN (calendar IS NULL) AND 1),
    CONSTRAINT rule_overrides_key UNIQUE (rule_id, match_key, is_prefix)
) STRICT;
CREATE INDEX rule_overrides_rule_id ON rule_overrides (rule_id, id);
CREATE INDEX rule_overrides_seq     ON rule_overrides (seq);
CREATE INDEX rule_overrides_expiry  ON rule_overrides (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE override_tombstones (
    seq       INTEGER NOT NULL,
    rule_id   INTEGER NOT NULL,
    match_key TEXT    NOT NULL,
    is_prefix INTEGER NOT NULL CHECK (is_prefix IN (0, 1)),
    at        TEXT    NOT NULL CHECK (at LIKE '____-__-__T__:__:__.___Z')
) STRICT;
CREATE INDEX override_tombstones_seq ON override_tombstones (seq);
CREATE INDEX override_tombstones_at  ON override_tombstones (at);

CREATE TABLE users (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    name          TEXT    NOT NULL CONSTRAINT users_name_key UNIQUE CHECK (name <> ''),
    role          TEXT    NOT NULL CHECK (role IN ('viewer', 'editor', 'admin')),
    password_hash TEXT    NOT NULL,
    issuer        TEXT    NOT NULL DEFAULT '',
    subject       TEXT    NOT NULL DEFAULT '',
    disabled      INTEGER NOT NULL DEFAULT 0 CHECK (disabled IN (0, 1)),
    generation    INTEGER NOT NULL DEFAULT 1 CHECK (generation >= 1),
    created_by    TEXT    NOT NULL,
    created_at    TEXT    NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.___Z'),
    updated_at    TEXT    NOT NULL CHECK (updated_at LIKE '____-__-__T__:__:__.___Z'),
    last_login    TEXT    CHECK (last_login LIKE '____-__-__T__:__:__.___Z'),
    CONSTRAINT users_identity CHECK ((issuer = '') = (subject = '') AND (issuer = '' OR password_hash = ''))
) STRICT;
CREATE UNIQUE INDEX users_identity_key ON users (issuer, subject) WHERE issuer <> '';

CREATE TABLE sessions (
    token      TEXT NOT NULL PRIMARY KEY,
    data       BLOB NOT NULL,
    expires_at TEXT NOT NULL CHECK (expires_at LIKE '____-__-__T__:__:__.___Z')
) STRICT;
CREATE INDEX sessions_expires_at ON sessions (expires_at);

CREATE TABLE stats_live (
    rule   TEXT    NOT NULL,
    hour   INTEGER NOT NULL,
    writer INTEGER NOT NULL,
    data   BLOB    NOT NULL,
    tops   BLOB,
    PRIMARY KEY (rule, hour, writer)
);
CREATE INDEX stats_live_hour ON stats_live (hour);

CREATE TABLE stats (
    kind   INTEGER NOT NULL,
    rule   TEXT    NOT NULL,
    period INTEGER NOT NULL,
    data   BLOB    NOT NULL,
    tops   BLOB,
    PRIMARY KEY (kind, rule, period)
);
CREATE INDEX stats_kind_period ON stats (kind, period);

CREATE TABLE usage (
    rule   INTEGER NOT NULL,
    period INTEGER NOT NULL,
    key    TEXT    NOT NULL,
    spent  INTEGER NOT NULL,
    seen   INTEGER NOT NULL,
    PRIMARY KEY (rule, period, key)
) WITHOUT ROWID;

CREATE TABLE usage_state (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    lost_at INTEGER NOT NULL
);
INSERT INTO usage_state (id, lost_at) VALUES (1, 0);

CREATE TABLE events (
    id    TEXT PRIMARY KEY,
    kind  TEXT NOT NULL,
    at    INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    node  TEXT NOT NULL,
    data  TEXT NOT NULL
);
CREATE INDEX events_at ON events (at);

CREATE TABLE record_key (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    key BLOB NOT NULL
);

CREATE TABLE webhooks (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT NOT NULL CONSTRAINT webhooks_name_key UNIQUE
                            CONSTRAINT webhooks_name_shape CHECK (length(name) <= 63 AND name GLOB '[a-z0-9]*' AND name NOT GLOB '*[^a-z0-9._-]*'),
    description TEXT NOT NULL DEFAULT '',
    settings    TEXT NOT NULL DEFAULT '{}'
                            CONSTRAINT webhooks_settings_object CHECK (json_valid(settings) AND json_type(settings) = 'object'),
    secret      TEXT NOT NULL DEFAULT '',
    old_secret  TEXT NOT NULL DEFAULT '',
    old_until   INTEGER NOT NULL DEFAULT 0,
    disabled    TEXT NOT NULL DEFAULT '',
    version     INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at  TEXT NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.___Z'),
    updated_at  TEXT NOT NULL CHECK (updated_at LIKE '____-__-__T__:__:__.___Z')
) STRICT;

CREATE TABLE alert_lease (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    holder     TEXT NOT NULL,
    held_until INTEGER NOT NULL
) STRICT;
INSERT INTO alert_lease (id, holder, held_until) VALUES (1, '', 0);

CREATE TABLE alert_reports (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    uid     TEXT NOT NULL CONSTRAINT alert_reports_uid UNIQUE,
    data    TEXT NOT NULL,
    read_at INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX alert_reports_unread ON alert_reports (id) WHERE read_at = 0;

CREATE TABLE alert_states (
    subject TEXT PRIMARY KEY,
    data    TEXT NOT NULL
) STRICT;

CREATE TABLE alert_events (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    uid  TEXT NOT NULL CONSTRAINT alert_events_uid UNIQUE,
    at   INTEGER NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT;

CREATE TABLE alert_deliveries (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    message    TEXT NOT NULL,
    webhook_id INTEGER NOT NULL,
    subject    TEXT NOT NULL,
    kind       TEXT NOT NULL,
    body       TEXT NOT NULL,
    created    INTEGER NOT NULL,
    next_at    INTEGER NOT NULL DEFAULT 0,
    state      INTEGER NOT NULL DEFAULT 0,
    attempts   INTEGER NOT NULL DEFAULT 0,
    status     INTEGER NOT NULL DEFAULT 0,
    error      TEXT NOT NULL DEFAULT '',
    took_ms    INTEGER NOT NULL DEFAULT 0,
    tried      INTEGER NOT NULL DEFAULT 0,
    ended      INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT alert_deliveries_message UNIQUE (webhook_id, message)
) STRICT;
CREATE INDEX alert_deliveries_webhook ON alert_deliveries (webhook_id, id);
CREATE INDEX alert_deliveries_tried ON alert_deliveries (webhook_id, tried);
CREATE INDEX alert_deliveries_waiting ON alert_deliveries (webhook_id, subject, id) WHERE state = 0;
CREATE INDEX alert_deliveries_due ON alert_deliveries (webhook_id, next_at, id) WHERE state = 0;

CREATE TABLE alert_silences (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    acknowledges TEXT    NOT NULL DEFAULT '',
    kind         TEXT    NOT NULL,
    rule         TEXT    NOT NULL DEFAULT '',
    key          TEXT    NOT NULL DEFAULT '',
    level        TEXT    NOT NULL DEFAULT '',
    reason       TEXT    NOT NULL CHECK (reason <> ''),
    ends_at      INTEGER NOT NULL,
    created_by   TEXT    NOT NULL,
    version      INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at   TEXT    NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.___Z'),
    updated_at   TEXT    NOT NULL CHECK (updated_at LIKE '____-__-__T__:__:__.___Z')
) STRICT;

CREATE TABLE saved_views (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name    TEXT    NOT NULL CHECK (name <> ''),
    path    TEXT    NOT NULL,
    query   TEXT    NOT NULL,
    CONSTRAINT saved_views_name_key UNIQUE (user_id, path, name)
) STRICT;

CREATE TABLE database_id (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    value TEXT NOT NULL CHECK (length(value) = 32)
);
INSERT INTO database_id (id, value) VALUES (1, lower(hex(randomblob(16))));

CREATE TABLE versions (
    name    TEXT    PRIMARY KEY,
    version INTEGER NOT NULL CHECK (version >= 0),
    stamp   TEXT    NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE version_history (
    name    TEXT    NOT NULL,
    version INTEGER NOT NULL,
    stamp   TEXT    NOT NULL,
    PRIMARY KEY (name, version)
) STRICT;

CREATE TRIGGER versions_update_stamp AFTER UPDATE OF version ON versions BEGIN
    UPDATE versions SET stamp = lower(hex(randomblob(16))) WHERE name = NEW.name;
    INSERT OR REPLACE INTO version_history
        SELECT name, version, stamp FROM versions WHERE name = NEW.name AND name IN ('rules', 'overrides');
END;
CREATE TRIGGER versions_insert_stamp AFTER INSERT ON versions BEGIN
    UPDATE versions SET version = version WHERE name = NEW.name;
END;

CREATE TRIGGER rules_delete_tombstone AFTER DELETE ON rules BEGIN
    INSERT INTO rule_tombstones SELECT version, OLD.id FROM versions WHERE name = 'rules';
END;

INSERT INTO versions (name, version) VALUES ('rules', 0), ('tokens', 0), ('overrides', 0), ('overrides_floor', 0), ('users', 0),
    ('webhooks', 0);
-- +goose StatementEnd
