-- The indexes sum the payments that have ended, and list the dead ones, without reading
-- all there ever were.
-- +goose Up
CREATE INDEX payments_totals ON payments (network, asset, state, amount, claimed) WHERE check_at IS NULL;
CREATE INDEX payments_dead ON payments (claimed) WHERE state = 'dead';
