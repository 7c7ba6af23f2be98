-- +goose Up
-- What limited a rule before the last edit that changed the kind of its algorithm, and when that was: one JSON object,
-- NULL for none. Nodes count what was spent under it for one of its windows.
ALTER TABLE rules ADD COLUMN former TEXT;

-- +goose Down
ALTER TABLE rules DROP COLUMN former;
