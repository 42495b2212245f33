BEGIN TRANSACTION;
CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);
INSERT INTO goose_db_version VALUES(1,0,1,'2026-11-22 18:55:37');
INSERT INTO goose_db_version VALUES(2,1,1,'2026-11-22 18:55:37');
CREATE TABLE users (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    username      TEXT    NOT NULL,
    display_name  TEXT    NOT NULL,
    password_hash TEXT    NOT NULL,
    avatar_color  TEXT    NOT NULL,
    role          TEXT    NOT NULL CHECK (role IN ('admin', 'member')),
    created_at    INTEGER NOT NULL -- Unix seconds
);
INSERT INTO users VALUES(1,'joerg','joerg','$2a$12$G5c5NimPLKDW6jjM2cQUUOZQUdHqVbkTtAz8MVNt5cGIwwC87HSSy','#007AFF','admin',1795373738);
INSERT INTO users VALUES(2,'aenne','Änne Müller','$2a$12$8kNlFiLIMuJtYKUGFhu5dOKY4U3lT0I1/1ic92wsQtJKFG2xVq39G','#34C759','member',1795373742);
INSERT INTO users VALUES(3,'opa','Opa Günther','sha256:$2a$12$e9nkJHkWr8Cz34MuYMvpqOMKPyDHhikhrkO.pKIR9FfpF8YiZtA.i','#007AFF','member',1795373742);
CREATE TABLE pending_revocations (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id      INTEGER NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind IN ('sessions', 'role')),
    keep_session TEXT    NOT NULL,
    recorded_at  INTEGER NOT NULL -- Unix seconds
);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('goose_db_version',2);
INSERT INTO sqlite_sequence VALUES('users',3);
CREATE UNIQUE INDEX users_username ON users (lower(username));
CREATE INDEX users_admins ON users (id) WHERE role = 'admin';
COMMIT;
