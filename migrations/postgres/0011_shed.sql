-- +goose Up
-- Whether a pool sheds requests that it has no room for. Nodes of the release before leave the column alone.
ALTER TABLE pools ADD COLUMN shed BOOLEAN NOT NULL DEFAULT FALSE;

-- +goose Down
ALTER TABLE pools DROP COLUMN shed;
