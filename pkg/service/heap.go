package service

import "runtime"

// heapRoom is what a server may leave to the collector of garbage before it has
// to run, in bytes. Go lets a heap grow to twice what is in use; a server of
// small answers uses a few megabytes, and would collect dozens of times a second.
const heapRoom = 32 << 20

// keepHeapRoom makes the heap larger by heapRoom until the function that it
// returns is called. Nothing touches those bytes, so that they are addresses and
// no memory; the garbage that may gather is. Unlike a higher GOGC that is no
// more for a large heap than for a small one.
func keepHeapRoom() (release func()) {
	room := make([]byte, heapRoom)
	return func() { runtime.KeepAlive(room) }
}
