-- +goose Up

-- Profiles say how the requests of gateways are read. The settings of a profile are one JSON
-- object, by the names that they have in the API; those at their defaults are left out. What they
-- may be is for the validator.
CREATE TABLE profiles (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT    NOT NULL CONSTRAINT profiles_name_key UNIQUE
                        CONSTRAINT profiles_name_shape CHECK (length(name) <= 63 AND name GLOB '[a-z0-9]*' AND name NOT GLOB '*[^a-z0-9._-]*'),
    description TEXT    NOT NULL DEFAULT '',
    settings    TEXT    NOT NULL DEFAULT '{}'
                        CONSTRAINT profiles_settings_object CHECK (json_valid(settings) AND json_type(settings) = 'object'),
    version     INTEGER NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at  TEXT    NOT NULL CHECK (created_at LIKE '____-__-__T__:__:__.___Z'),
    updated_at  TEXT    NOT NULL CHECK (updated_at LIKE '____-__-__T__:__:__.___Z')
) STRICT;

-- +goose Down
DROP TABLE profiles;
