-- +goose Up
-- What was decided, in packed rows: by kind (see internal/stats), rule and period.
CREATE TABLE stats (
    kind   INTEGER NOT NULL,
    rule   TEXT    NOT NULL,
    period INTEGER NOT NULL,
    data   BLOB    NOT NULL,
    PRIMARY KEY (kind, rule, period)
);
CREATE INDEX stats_kind_period ON stats (kind, period);

-- Which node writes them, until when unless it renews that, and until when figures are written; ms since 1970.
CREATE TABLE stats_writer (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    holder     TEXT    NOT NULL,
    held_until INTEGER NOT NULL,
    written    INTEGER NOT NULL
);
INSERT INTO stats_writer (id, holder, held_until, written) VALUES (1, '', 0, 0);

-- What happened on nodes, in ms since 1970: at is when it began, ended when it ended, 0 while it lasts.
CREATE TABLE events (
    id    TEXT PRIMARY KEY,
    kind  TEXT NOT NULL,
    at    INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    node  TEXT NOT NULL,
    data  TEXT NOT NULL
);
CREATE INDEX events_at ON events (at);

-- +goose Down
DROP TABLE events;
DROP TABLE stats_writer;
DROP TABLE stats;
