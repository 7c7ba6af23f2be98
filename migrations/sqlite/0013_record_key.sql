-- +goose Up
-- The key with which every node hashes credentials in the decision log, so that equal values have equal hashes.
CREATE TABLE record_key (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    key BLOB NOT NULL
);

-- +goose Down
DROP TABLE record_key;
