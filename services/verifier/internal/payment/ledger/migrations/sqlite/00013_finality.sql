-- Proofs of finality (package beaconchain). chain is a CAIP-2 id, moments are Unix milliseconds.
-- The queue has no unique index: two sales about one block wait for nothing, and doubles
-- are dropped when bundles are made of them.
-- +goose Up
CREATE TABLE finality_queue (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    chain      TEXT NOT NULL,
    block_hash BLOB NOT NULL,
    number     INTEGER NOT NULL,
    queued     INTEGER NOT NULL
);
CREATE INDEX finality_queue_block ON finality_queue (chain, block_hash);
-- sold is when the block was last sold, tried when the bundle was first tried to be made.
-- What has expired has no content.
CREATE TABLE finality_bundles (
    chain       TEXT NOT NULL,
    block_hash  BLOB NOT NULL,
    number      INTEGER NOT NULL,
    state       TEXT NOT NULL,
    sold        INTEGER NOT NULL,
    queued      INTEGER NOT NULL,
    tried       INTEGER NOT NULL DEFAULT 0,
    tries       INTEGER NOT NULL DEFAULT 0,
    try_at      INTEGER NOT NULL,
    period      INTEGER NOT NULL DEFAULT 0,
    anchor_slot INTEGER NOT NULL DEFAULT 0,
    content     BLOB,
    made        INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (chain, block_hash)
);
CREATE INDEX finality_bundles_pending ON finality_bundles (chain, try_at) WHERE state = 'pending';
CREATE INDEX finality_bundles_sold ON finality_bundles (sold) WHERE state <> 'expired';
-- For how many there are in each state, which is asked all the time.
CREATE INDEX finality_bundles_state ON finality_bundles (chain, state);
-- The steps of a chain's sync committees, one a period.
CREATE TABLE finality_steps (
    chain   TEXT NOT NULL,
    period  INTEGER NOT NULL,
    signers INTEGER NOT NULL,
    final   INTEGER NOT NULL,
    step    BLOB NOT NULL,
    written INTEGER NOT NULL,
    PRIMARY KEY (chain, period)
);
CREATE TABLE finality_checkpoints (
    chain      TEXT NOT NULL,
    root       BLOB NOT NULL,
    slot       INTEGER NOT NULL,
    period     INTEGER NOT NULL,
    own        INTEGER NOT NULL,
    checkpoint BLOB NOT NULL,
    written    INTEGER NOT NULL,
    PRIMARY KEY (chain, root)
);
