-- A payment is open as long as check_at says when to look at it. The states are
-- compared one by one: for a list of three or more SQLite makes a table of its
-- own, each time a row is written.
-- +goose Up
CREATE TABLE payments_2 (
    id           INTEGER PRIMARY KEY,
    network      TEXT NOT NULL,
    asset        TEXT NOT NULL,
    payer        TEXT NOT NULL,
    nonce        TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state = 'working' OR state = 'settling' OR state = 'settled' OR state = 'dead' OR state = 'unknown'),
    owner        TEXT NOT NULL,
    deadline     INTEGER NOT NULL, -- moments are Unix milliseconds
    payment      BLOB NOT NULL,
    request      BLOB NOT NULL,
    identifier   TEXT NOT NULL,
    resource     TEXT NOT NULL,
    amount       TEXT NOT NULL,
    pay_to       TEXT NOT NULL,
    valid_before INTEGER NOT NULL,
    month        TEXT NOT NULL DEFAULT '',
    tx           TEXT NOT NULL DEFAULT '',
    reason       TEXT NOT NULL DEFAULT '',
    claimed      INTEGER NOT NULL,
    changed      INTEGER NOT NULL,
    check_at     INTEGER DEFAULT 0, -- NULL when settled or dead
    UNIQUE (nonce, payer, asset, network)
);
INSERT INTO payments_2 (id, network, asset, payer, nonce, state, owner, deadline, payment, request, identifier, resource,
        amount, pay_to, valid_before, month, tx, reason, claimed, changed, check_at)
    SELECT id, network, asset, payer, nonce, state, owner, deadline, payment, request, identifier, resource,
        amount, pay_to, valid_before, month, tx, reason, claimed, changed,
        CASE WHEN state IN ('settled', 'dead') THEN NULL ELSE check_at END
    FROM payments;
DROP TABLE payments;
ALTER TABLE payments_2 RENAME TO payments;
CREATE INDEX payments_open ON payments (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX payments_identifier ON payments (payer, identifier) WHERE identifier <> '';
CREATE INDEX payments_claimed ON payments (claimed);
DROP INDEX answers_claimed;
