-- The log of receipts (package translog). log is the generation, from 1; moments are Unix
-- milliseconds. The queue has no unique index: two sales of one receipt wait for nothing,
-- and doubles are dropped when entries get their places. source is the number of the
-- payment that an entry was queued with, 0 for a listed key, -1 for what came back from a copy.
-- +goose Up
CREATE TABLE log_queue (
    id     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    leaf   BYTEA NOT NULL,
    entry  BYTEA NOT NULL,
    queued BIGINT NOT NULL,
    source BIGINT NOT NULL
);
CREATE INDEX log_queue_leaf ON log_queue (leaf);
CREATE TABLE log_entries (
    log   BIGINT NOT NULL,
    idx   BIGINT NOT NULL,
    leaf  BYTEA NOT NULL,
    entry BYTEA NOT NULL,
    source BIGINT NOT NULL,
    placed BIGINT NOT NULL,
    PRIMARY KEY (log, idx)
);
CREATE UNIQUE INDEX log_entries_leaf ON log_entries (log, leaf);
-- id is that of golang.org/x/mod/sumdb/tlog.
CREATE TABLE log_hashes (
    log  BIGINT NOT NULL,
    id   BIGINT NOT NULL,
    hash BYTEA NOT NULL,
    PRIMARY KEY (log, id)
);
-- The row is the lock under which entries get their places. frozen says why nothing is
-- signed; queued is 1 when every stored answer was queued; a closed log has its final
-- checkpoint.
CREATE TABLE log_head (
    log    BIGINT PRIMARY KEY,
    origin TEXT NOT NULL,
    vkey   TEXT NOT NULL,
    size   BIGINT NOT NULL,
    root   BYTEA NOT NULL,
    frozen TEXT NOT NULL DEFAULT '',
    queued BIGINT NOT NULL DEFAULT 0,
    opened BIGINT NOT NULL,
    closed BIGINT NOT NULL DEFAULT 0,
    final  BYTEA
);
CREATE TABLE log_checkpoints (
    log       BIGINT NOT NULL,
    size      BIGINT NOT NULL,
    note      BYTEA NOT NULL,
    published BIGINT NOT NULL,
    PRIMARY KEY (log, size)
);
-- The size that a witness, named by its verifier key, has cosigned last.
CREATE TABLE log_witnesses (
    log  BIGINT NOT NULL,
    name TEXT NOT NULL,
    size BIGINT NOT NULL,
    seen BIGINT NOT NULL,
    PRIMARY KEY (log, name)
);
