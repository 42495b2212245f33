-- +goose Up
-- The last event of a name about a user, such as their last login.
CREATE INDEX audit_subject_event ON audit (subject_id, event, at);

-- +goose Down
DROP INDEX audit_subject_event;
