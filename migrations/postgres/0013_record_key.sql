-- +goose Up
-- The key with which every node hashes credentials in the decision log, so that equal values have equal hashes.
CREATE TABLE record_key (
    id  SMALLINT PRIMARY KEY CHECK (id = 1),
    key BYTEA NOT NULL
);

-- +goose Down
DROP TABLE record_key;
