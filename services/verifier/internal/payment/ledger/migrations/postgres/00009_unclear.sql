-- The indexes count a payer's and a client's settlements that ended unclear: their
-- authorizations expired unspent after the facilitator was asked.
-- +goose Up
CREATE INDEX payments_payer_unclear ON payments (payer, claimed) WHERE state = 'dead' AND reason = 'authorization_expired_unspent';
CREATE INDEX payments_client_unclear ON payments (client, claimed) WHERE state = 'dead' AND reason = 'authorization_expired_unspent';
