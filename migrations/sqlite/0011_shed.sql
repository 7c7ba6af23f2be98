-- +goose Up
-- Whether a pool sheds requests that it has no room for.
ALTER TABLE pools ADD COLUMN shed INTEGER NOT NULL DEFAULT 0 CHECK (shed IN (0, 1));

-- +goose Down
ALTER TABLE pools DROP COLUMN shed;
