-- +goose Up

-- Webhooks are where alerts go. The settings of a webhook are one JSON object, by the names that they have in the API.
-- secret signs what is sent; old_secret signs it too until old_until (ms since 1970), after a rotation.
-- disabled says why Sluice made a webhook inactive by itself.
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
INSERT INTO versions (name, version) VALUES ('webhooks', 0);

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

-- A change by hand is in the audit log, as for pools.
CREATE TRIGGER sluice_lock BEFORE INSERT OR UPDATE OR DELETE ON webhooks
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_lock('webhooks');
CREATE TRIGGER sluice_insert AFTER INSERT ON webhooks REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_changed('webhooks', 'webhook');
CREATE TRIGGER sluice_update AFTER UPDATE ON webhooks REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_changed('webhooks', 'webhook');
CREATE TRIGGER sluice_delete AFTER DELETE ON webhooks REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_changed('webhooks', 'webhook');
CREATE TRIGGER sluice_truncate AFTER TRUNCATE ON webhooks
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_truncated('webhooks', 'webhook', 'delete');

-- +goose Down
DROP TABLE alert_deliveries;
DROP TABLE alert_events;
DROP TABLE alert_states;
DROP TABLE alert_reports;
DROP TABLE alert_lease;
DELETE FROM versions WHERE name = 'webhooks';
DROP TABLE webhooks;
