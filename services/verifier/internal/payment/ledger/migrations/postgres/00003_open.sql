-- +goose Up
DROP INDEX payments_open;
CREATE INDEX payments_open ON payments (check_at) WHERE check_at IS NOT NULL;
