-- What was in log_queue and is no entry of the log, kept for the operator: it never gets a
-- place.
-- +goose Up
CREATE TABLE log_set_aside (
    id     BIGINT PRIMARY KEY,
    entry  BYTEA NOT NULL,
    queued BIGINT NOT NULL,
    source BIGINT NOT NULL,
    why    TEXT NOT NULL
);
