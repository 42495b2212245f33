-- hash is the SHA-256 of the answer, by which it can be had for nothing. It is NULL where a
-- release before wrote the answer, until Prune: the second index finds those.
-- +goose Up
ALTER TABLE answers ADD COLUMN hash BLOB;
CREATE INDEX answers_hash ON answers (hash) WHERE hash IS NOT NULL;
CREATE INDEX answers_without_hash ON answers (payment) WHERE hash IS NULL;
