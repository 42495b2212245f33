// Package userfile reads the users of another application from its SQLite file or from
// CSV. It checks the form of the file only, not the users.
//
// The file has a table "users", or a first line, with the columns username,
// display_name and password_hash, and optionally id, avatar_color, role and
// created_at, in any order and letter case. Other columns are ignored and reported.
package userfile
