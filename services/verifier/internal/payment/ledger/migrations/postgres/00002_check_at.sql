-- A payment is open as long as check_at says when to look at it. Each file is a
-- transaction of its own, so that replicas that sell meanwhile wait for none long;
-- what has ended is cleared in portions, by Prune.
-- +goose Up
ALTER TABLE payments ALTER COLUMN check_at DROP NOT NULL;
