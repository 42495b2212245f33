-- +goose Up
-- By what applications know a user, a random UUID, from the first time that one asks on: ids are given again when a
-- database is restored. NULL until then.
ALTER TABLE users ADD COLUMN subject TEXT;
CREATE UNIQUE INDEX users_subject ON users (subject);

-- ASCII; of each address at most one, whatever its case. Confirmed by the admin who entered it (0: the operator), whom
-- no foreign key keeps; NULL: the user entered it.
ALTER TABLE users ADD COLUMN email TEXT COLLATE "C";
ALTER TABLE users ADD COLUMN email_confirmed_at BIGINT;
ALTER TABLE users ADD COLUMN email_confirmed_by BIGINT;
CREATE UNIQUE INDEX users_email ON users (lower(email));

-- +goose Down
DROP INDEX users_email;
ALTER TABLE users DROP COLUMN email_confirmed_by;
ALTER TABLE users DROP COLUMN email_confirmed_at;
ALTER TABLE users DROP COLUMN email;
DROP INDEX users_subject;
ALTER TABLE users DROP COLUMN subject;
