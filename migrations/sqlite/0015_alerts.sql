-- +goose Up

-- Webhooks are where alerts go. The settings of a webhook are one JSON object, by the names that they have in the API.
-- secret signs what is sent; old_secret signs it too until old_until (ms since 1970), after a rotation.
-- disabled says why Sluice made a webhook inactive by itself.
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
INSERT INTO versions (name, version) VALUES ('webhooks', 0);

-- Which node evaluates alerts, until when unless it renews that; ms since 1970.
CREATE TABLE alert_lease (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    holder     TEXT NOT NULL,
    held_until INTEGER NOT NULL
) STRICT;
INSERT INTO alert_lease (id, holder, held_until) VALUES (1, '', 0);

-- What single nodes have seen, for the node that evaluates. uid keeps a repeated write from counting twice, so that a
-- row stays for a while after it was read; read_at is when, in ms since 1970, and 0 before that.
CREATE TABLE alert_reports (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    uid     TEXT NOT NULL CONSTRAINT alert_reports_uid UNIQUE,
    data    TEXT NOT NULL,
    read_at INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX alert_reports_unread ON alert_reports (id) WHERE read_at = 0;

-- Which conditions are met, and when that was last told.
CREATE TABLE alert_states (
    subject TEXT PRIMARY KEY,
    data    TEXT NOT NULL
) STRICT;

-- The alerts of the last weeks; at is in ms since 1970.
CREATE TABLE alert_events (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    uid  TEXT NOT NULL CONSTRAINT alert_events_uid UNIQUE,
    at   INTEGER NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT;

-- Messages to webhooks. state is 0 while a message waits, 1 when it was delivered, 2 when it was given up. Times are in
-- ms since 1970; next_at is when it is sent again, 0 before the first attempt; ended is when it left state 0. The
-- messages about a subject are sent in order.
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

-- +goose Down
DROP TABLE alert_deliveries;
DROP TABLE alert_events;
DROP TABLE alert_states;
DROP TABLE alert_reports;
DROP TABLE alert_lease;
DELETE FROM versions WHERE name = 'webhooks';
DROP TABLE webhooks;
