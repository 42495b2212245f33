-- +goose Up
-- A random UUID by which applications know a user; NULL until the first one asks. Ids would not do: they are given
-- again when a database is restored.
ALTER TABLE users ADD COLUMN subject TEXT;
CREATE UNIQUE INDEX users_subject ON users (subject);

-- ASCII; at most one user has an address, whatever its case. It is confirmed by the admin who entered it (0: the
-- operator), without a foreign key, because that admin may be gone; NULL: the user entered it.
ALTER TABLE users ADD COLUMN email TEXT;
ALTER TABLE users ADD COLUMN email_confirmed_at INTEGER;
ALTER TABLE users ADD COLUMN email_confirmed_by INTEGER;
CREATE UNIQUE INDEX users_email ON users (lower(email));

-- +goose Down
DROP INDEX users_email;
ALTER TABLE users DROP COLUMN email_confirmed_by;
ALTER TABLE users DROP COLUMN email_confirmed_at;
ALTER TABLE users DROP COLUMN email;
DROP INDEX users_subject;
ALTER TABLE users DROP COLUMN subject;
