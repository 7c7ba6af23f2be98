-- +goose Up
-- A row of minutes is written 60 times, so the space of old versions must be free for the next ones soon: a fifth of the
-- table, the default, is as much as an hour of them.
ALTER TABLE stats SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- +goose Down
ALTER TABLE stats RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
