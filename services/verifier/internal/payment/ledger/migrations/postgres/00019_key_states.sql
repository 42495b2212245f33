-- The states of keys among the entries of the log: those that begin with
-- "chain-evidence-key/". The ledger looks for the last one of each key.
-- +goose Up
CREATE INDEX log_entries_keys ON log_entries (log, idx) WHERE substr(entry, 1, 19) = '\x636861696e2d65766964656e63652d6b65792f'::bytea;
