-- client stands for the client's address on the day of the claim. The indexes
-- count a payer's and a client's settlements that failed, are under way, were paid.
-- +goose Up
ALTER TABLE payments ADD COLUMN client TEXT NOT NULL DEFAULT '';
CREATE INDEX payments_payer_begun ON payments (payer) WHERE (state = 'settling' OR state = 'unknown');
CREATE INDEX payments_client_begun ON payments (client) WHERE (state = 'settling' OR state = 'unknown');
CREATE INDEX payments_payer_paid ON payments (payer) WHERE state = 'settled';
CREATE INDEX payments_client_paid ON payments (client) WHERE state = 'settled';
CREATE INDEX payments_payer_failed ON payments (payer, claimed, month) WHERE state = 'dead' AND month <> '';
CREATE INDEX payments_client_failed ON payments (client, claimed) WHERE state = 'dead' AND month <> '';
