//go:build race

package main

// raceMemory is by how much the memory of a program that the race detector watches may be greater.
const raceMemory = 3
