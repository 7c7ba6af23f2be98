-- +goose Up

-- Beside each version stands a random stamp, new with each version. A database
-- that comes back without its last change reaches the same number again, but
-- never the same stamp.
ALTER TABLE versions ADD COLUMN stamp TEXT NOT NULL DEFAULT '';

-- The versions that this database has had. A node may load only what changed
-- since a version that is among them, with the stamp that the node holds.
CREATE TABLE version_history (
    name    TEXT    NOT NULL,
    version INTEGER NOT NULL,
    stamp   TEXT    NOT NULL,
    PRIMARY KEY (name, version)
) STRICT;

-- +goose StatementBegin
CREATE TRIGGER versions_update_stamp AFTER UPDATE OF version ON versions BEGIN
    UPDATE versions SET stamp = lower(hex(randomblob(16))) WHERE name = NEW.name;
    INSERT OR REPLACE INTO version_history
        SELECT name, version, stamp FROM versions WHERE name = NEW.name AND name IN ('rules', 'overrides');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER versions_insert_stamp AFTER INSERT ON versions BEGIN
    UPDATE versions SET version = version WHERE name = NEW.name;
END;
-- +goose StatementEnd
UPDATE versions SET version = version;

-- seq is the version of the rules that wrote the row, so that nodes load only
-- what changed.
ALTER TABLE rules ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
CREATE INDEX rules_seq ON rules (seq);

-- Rules that were deleted, for nodes that still hold them. Old rows are dropped
-- together with those of version_history.
CREATE TABLE rule_tombstones (
    seq     INTEGER NOT NULL,
    rule_id INTEGER NOT NULL
) STRICT;
CREATE INDEX rule_tombstones_seq ON rule_tombstones (seq);

-- +goose StatementBegin
CREATE TRIGGER rules_delete_tombstone AFTER DELETE ON rules BEGIN
    INSERT INTO rule_tombstones SELECT version, OLD.id FROM versions WHERE name = 'rules';
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER rules_delete_tombstone;
DROP TABLE rule_tombstones;
DROP INDEX rules_seq;
ALTER TABLE rules DROP COLUMN seq;
DROP TRIGGER versions_insert_stamp;
DROP TRIGGER versions_update_stamp;
DROP TABLE version_history;
ALTER TABLE versions DROP COLUMN stamp;
