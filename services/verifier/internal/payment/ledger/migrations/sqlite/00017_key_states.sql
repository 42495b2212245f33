-- The states of keys among the entries of the log: those that begin with
-- "chain-evidence-key/". The ledger looks for the last one of each key.
-- +goose Up
CREATE INDEX log_entries_keys ON log_entries (log, idx) WHERE substr(entry, 1, 19) = X'636861696E2D65766964656E63652D6B65792F';
