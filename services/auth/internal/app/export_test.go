package app

import (
	"maps"
	"slices"
)

// Commands are the names of all commands.
func Commands() []string { return slices.Sorted(maps.Keys(commands)) }
