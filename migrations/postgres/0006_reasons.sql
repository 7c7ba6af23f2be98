-- +goose Up

-- Why a rule was changed, in the words of who did; empty if they said nothing.
ALTER TABLE rule_revisions ADD COLUMN reason TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE rule_revisions DROP COLUMN reason;
