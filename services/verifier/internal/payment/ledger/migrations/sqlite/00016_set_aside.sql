-- What was in log_queue and is no entry of the log, kept for the operator: it never gets a
-- place.
-- +goose Up
CREATE TABLE log_set_aside (
    id     INTEGER PRIMARY KEY,
    entry  BLOB NOT NULL,
    queued INTEGER NOT NULL,
    source INTEGER NOT NULL,
    why    TEXT NOT NULL
);
