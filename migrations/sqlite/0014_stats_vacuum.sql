-- +goose Up
-- SQLite reuses free space at once; the number keeps both schemas alike.
SELECT 1;

-- +goose Down
SELECT 1;
