-- +goose Up
-- Who answers for a rule.
ALTER TABLE rules ADD COLUMN owner TEXT;
CREATE INDEX rules_owner_id ON rules (owner, id);

-- +goose Down
DROP INDEX rules_owner_id;
ALTER TABLE rules DROP COLUMN owner;
