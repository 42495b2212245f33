-- +goose Up
-- The names of deleted users, in small letters: applications may still have what was theirs. Of those who
-- were deleted before this migration, it has the names that are still in the audit.
CREATE TABLE former_usernames (
    username TEXT COLLATE "C" PRIMARY KEY
);
INSERT INTO former_usernames (username)
SELECT DISTINCT lower(subject_name) FROM audit WHERE event = 'user_deleted' AND subject_name <> '';

-- +goose Down
DROP TABLE former_usernames;
