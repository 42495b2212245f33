// Package userfile reads the users that another application kept, from its
// SQLite file or from CSV, as it kept them: nothing is judged here but the form
// of the file.
//
// The file has a table "users", or a first line, with the columns username,
// display_name and password_hash, and where it has them id, avatar_color, role
// and created_at, in any order and letter case. Other columns are passed over
// and named.
package userfile
