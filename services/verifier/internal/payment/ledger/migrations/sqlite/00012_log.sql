-- The log of receipts (package translog). log is the generation, from 1; moments are Unix
-- milliseconds. The queue has no unique index: two sales of one receipt wait for nothing,
-- and doubles are dropped when entries get their places. source is the number of the
-- payment that an entry was queued with, 0 for a listed key, -1 for what came back from a copy.
-- +goose Up
CREATE TABLE log_queue (
    id     INTEGER PRIMARY KEY,
    leaf   BLOB NOT NULL,
    entry  BLOB NOT NULL,
    queued INTEGER NOT NULL,
    source INTEGER NOT NULL
);
CREATE INDEX log_queue_leaf ON log_queue (leaf);
CREATE TABLE log_entries (
    log   INTEGER NOT NULL,
    idx   INTEGER NOT NULL,
    leaf  BLOB NOT NULL,
    entry BLOB NOT NULL,
    source INTEGER NOT NULL,
    placed INTEGER NOT NULL,
    PRIMARY KEY (log, idx)
) WITHOUT ROWID;
CREATE UNIQUE INDEX log_entries_leaf ON log_entries (log, leaf);
-- id is that of golang.org/x/mod/sumdb/tlog.
CREATE TABLE log_hashes (
    log  INTEGER NOT NULL,
    id   INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (log, id)
) WITHOUT ROWID;
-- The row is the lock under which entries get their places. frozen says why nothing is
-- signed; queued is 1 when every stored answer was queued; a closed log has its final
-- checkpoint.
CREATE TABLE log_head (
    log    INTEGER PRIMARY KEY,
    origin TEXT NOT NULL,
    vkey   TEXT NOT NULL,
    size   INTEGER NOT NULL,
    root   BLOB NOT NULL,
    frozen TEXT NOT NULL DEFAULT '',
    queued INTEGER NOT NULL DEFAULT 0,
    opened INTEGER NOT NULL,
    closed INTEGER NOT NULL DEFAULT 0,
    final  BLOB
);
CREATE TABLE log_checkpoints (
    log       INTEGER NOT NULL,
    size      INTEGER NOT NULL,
    note      BLOB NOT NULL,
    published INTEGER NOT NULL,
    PRIMARY KEY (log, size)
);
-- The size that a witness, named by its verifier key, has cosigned last.
CREATE TABLE log_witnesses (
    log  INTEGER NOT NULL,
    name TEXT NOT NULL,
    size INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    PRIMARY KEY (log, name)
);
