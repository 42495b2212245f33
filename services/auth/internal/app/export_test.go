package app

import (
	"maps"
	"slices"
)

// Commands are the names of all commands.
func Commands() []string { return slices.Sorted(maps.Keys(commands)) }

// Sweep is the sweep of expired sessions.
var Sweep = sweep
