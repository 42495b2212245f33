-- Prune finds answers by their number.
-- +goose Up
DROP INDEX answers_claimed;
