-- A payment is open as long as check_at says when to look at it.
-- +goose Up
ALTER TABLE payments ALTER COLUMN check_at DROP NOT NULL;
UPDATE payments SET check_at = NULL WHERE state IN ('settled', 'dead');
DROP INDEX payments_open;
CREATE INDEX payments_open ON payments (check_at) WHERE check_at IS NOT NULL;
DROP INDEX answers_claimed;
