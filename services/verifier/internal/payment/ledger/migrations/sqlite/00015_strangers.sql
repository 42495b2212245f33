-- around stands for the network around a client, as client does for its address. stranger is 1
-- where the payer was not known when the settlement began: what failed of theirs counts
-- against a cap of all such payers.
-- +goose Up
ALTER TABLE payments ADD COLUMN around TEXT NOT NULL DEFAULT '';
ALTER TABLE payments ADD COLUMN stranger INTEGER NOT NULL DEFAULT 0;
CREATE INDEX payments_around_failed ON payments (around, claimed) WHERE state = 'dead' AND month <> '';
CREATE INDEX payments_strangers_failed ON payments (claimed) WHERE stranger = 1 AND state = 'dead' AND month <> '';
CREATE INDEX payments_strangers_begun ON payments (stranger, claimed) WHERE stranger = 1 AND (state = 'settling' OR state = 'unknown');
