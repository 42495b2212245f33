// Package config reads a program's settings from its environment into one
// documented struct.
//
// A setting is a struct field:
//
//	Addr   string        `env:"ADDR" default:":8081" doc:"address to serve on"`
//	Secret string        `env:"SESSION_SECRET,required" secret:"true" doc:"signs the cookies"`
//	Window time.Duration `env:"WINDOW" default:"1m" limit:"true" doc:"length of the window"`
//
// An empty variable counts as unset. A secret NAME may come as NAME_FILE, the
// path of a file that holds it. A limit that is zero, negative or no number
// means its default. All errors are returned at once, never with the value of
// a secret.
//
// What a setting means is for the program, whose struct may have a Validate
// method.
package config
