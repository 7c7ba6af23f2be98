-- +goose Up

-- Accounts of people who sign in by single sign-on belong to one subject of one
-- issuer, and have no password. Both columns are empty for all others.
ALTER TABLE users ADD COLUMN issuer  TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN subject TEXT NOT NULL DEFAULT ''
    CONSTRAINT users_identity CHECK ((issuer = '') = (subject = '') AND (issuer = '' OR password_hash = ''));
CREATE UNIQUE INDEX users_identity_key ON users (issuer, subject) WHERE issuer <> '';

-- +goose Down

-- Without their identity nobody could sign in with these accounts, and whoever
-- made a link to a password would hand over another person's. They are made anew
-- when their owners sign in.
DELETE FROM users WHERE issuer <> '';
DROP INDEX users_identity_key;
ALTER TABLE users DROP COLUMN subject;
ALTER TABLE users DROP COLUMN issuer;
