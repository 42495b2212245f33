// Package load asks a server over HTTP/1.1 as fast as it answers, on a fixed
// number of connections, and says how many answers came and how long each took.
//
// The server shares the machine with whoever asks, so asking has to be cheap:
// one thread, ready-made bytes, epoll. It is no HTTP client; it reads as much of
// an answer as is needed to find its end.
package load
