-- Proofs of finality (package beaconchain). chain is a CAIP-2 id, moments are Unix milliseconds.
-- The queue has no unique index: two sales about one block wait for nothing, and doubles
-- are dropped when bundles are made of them.
-- +goose Up
CREATE TABLE finality_queue (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain      TEXT NOT NULL,
    block_hash BYTEA NOT NULL,
    number     BIGINT NOT NULL,
    queued     BIGINT NOT NULL
);
CREATE INDEX finality_queue_block ON finality_queue (chain, block_hash);
-- sold is when the block was last sold, tried when the bundle was first tried to be made.
-- What has expired has no content.
CREATE TABLE finality_bundles (
    chain       TEXT NOT NULL,
    block_hash  BYTEA NOT NULL,
    number      BIGINT NOT NULL,
    state       TEXT NOT NULL,
    sold        BIGINT NOT NULL,
    queued      BIGINT NOT NULL,
    tried       BIGINT NOT NULL DEFAULT 0,
    tries       BIGINT NOT NULL DEFAULT 0,
    try_at      BIGINT NOT NULL,
    period      BIGINT NOT NULL DEFAULT 0,
    anchor_slot BIGINT NOT NULL DEFAULT 0,
    content     BYTEA,
    made        BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (chain, block_hash)
);
CREATE INDEX finality_bundles_pending ON finality_bundles (chain, try_at) WHERE state = 'pending';
CREATE INDEX finality_bundles_sold ON finality_bundles (sold) WHERE state <> 'expired';
-- For how many there are in each state, which is asked all the time.
CREATE INDEX finality_bundles_state ON finality_bundles (chain, state);
-- The steps of a chain's sync committees, one a period.
CREATE TABLE finality_steps (
    chain   TEXT NOT NULL,
    period  BIGINT NOT NULL,
    signers BIGINT NOT NULL,
    final   BIGINT NOT NULL,
    step    BYTEA NOT NULL,
    written BIGINT NOT NULL,
    PRIMARY KEY (chain, period)
);
CREATE TABLE finality_checkpoints (
    chain      TEXT NOT NULL,
    root       BYTEA NOT NULL,
    slot       BIGINT NOT NULL,
    period     BIGINT NOT NULL,
    own        BIGINT NOT NULL,
    checkpoint BYTEA NOT NULL,
    written    BIGINT NOT NULL,
    PRIMARY KEY (chain, root)
);
