-- +goose Up
-- A random id of this database. Copies, replicas and restored backups keep it. Nodes compare it through Redis, because
-- nodes of different databases must not share counters.
CREATE TABLE database_id (
    id    SMALLINT PRIMARY KEY CHECK (id = 1),
    value TEXT NOT NULL CHECK (length(value) = 32)
);
INSERT INTO database_id (id, value) VALUES (1, replace(gen_random_uuid()::text, '-', ''));

-- +goose Down
DROP TABLE database_id;
