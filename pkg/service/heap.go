package service

import "runtime"

// heapReserve is what a server may leave to the collector of garbage before it has
// to run, in bytes. Go grows a heap to twice what is in use; a server of
// small answers uses a few megabytes, and would collect dozens of times a second.
const heapReserve = 32 << 20

// keepHeapReserve makes the heap larger by heapReserve until the function that it
// returns is called. Nothing touches those bytes, so that they are addresses and
// no memory; the garbage that may gather is. Unlike a higher GOGC that is no
// more for a large heap than for a small one.
func keepHeapReserve() (release func()) {
	reserve := make([]byte, heapReserve)
	return func() { runtime.KeepAlive(reserve) }
}
