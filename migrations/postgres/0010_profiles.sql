-- +goose Up

-- Profiles say how the requests of gateways are read. The settings of a profile are one JSON
-- object, by the names that they have in the API; those at their defaults are left out. What they
-- may be is for the validator. Nodes of the release before do not know the table.
CREATE TABLE profiles (
    id          BIGINT      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        TEXT        NOT NULL CONSTRAINT profiles_name_key UNIQUE
                            CONSTRAINT profiles_name_shape CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    description TEXT        NOT NULL DEFAULT '',
    settings    JSONB       NOT NULL DEFAULT '{}'
                            CONSTRAINT profiles_settings_object CHECK (jsonb_typeof(settings) = 'object'),
    version     BIGINT      NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at  TIMESTAMPTZ NOT NULL,
    updated_at  TIMESTAMPTZ NOT NULL
);

-- A change by hand counts as one of the rules, as for pools.
CREATE TRIGGER sluice_lock BEFORE INSERT OR UPDATE OR DELETE ON profiles
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_lock('rules');
CREATE TRIGGER sluice_insert AFTER INSERT ON profiles REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_changed('rules', 'profile');
CREATE TRIGGER sluice_update AFTER UPDATE ON profiles REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_changed('rules', 'profile');
CREATE TRIGGER sluice_delete AFTER DELETE ON profiles REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_changed('rules', 'profile');
CREATE TRIGGER sluice_truncate AFTER TRUNCATE ON profiles
    FOR EACH STATEMENT EXECUTE FUNCTION sluice_truncated('rules', 'profile', 'delete');

-- +goose Down
DROP TABLE profiles;
