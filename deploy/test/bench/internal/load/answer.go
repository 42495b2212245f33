package load

import (
	"bytes"
	"errors"
	"strconv"
)

// errAnswer is an answer that is not HTTP as this package reads it.
var errAnswer = errors.New("load: cannot find the end of an answer")

var (
	headEnd  = []byte("\r\n\r\n")
	lastPart = []byte("0\r\n\r\n")
)

// whole tells whether data is a whole answer, and its status. Only one answer is
// ever awaited on a connection.
func whole(data []byte) (status int, ok bool, err error) {
	head := bytes.Index(data, headEnd)
	if head < 0 {
		return 0, false, nil
	}
	if len(data) < 12 || !bytes.HasPrefix(data, []byte("HTTP/1.")) {
		return 0, false, errAnswer
	}
	if status, err = strconv.Atoi(string(data[9:12])); err != nil {
		return 0, false, errAnswer
	}
	body := data[head+len(headEnd):]
	if length, found := field(data[:head+2], "content-length"); found {
		n, err := strconv.Atoi(string(length))
		if err != nil {
			return 0, false, errAnswer
		}
		return status, len(body) >= n, nil
	}
	if _, chunked := field(data[:head+2], "transfer-encoding"); chunked {
		return status, bytes.HasSuffix(body, lastPart), nil
	}
	if status == 204 || status == 304 {
		return status, true, nil
	}
	return 0, false, errAnswer
}

// field finds a header by its name in lower case. head ends with its last line's
// end.
func field(head []byte, name string) ([]byte, bool) {
	for len(head) > 0 {
		line, rest, _ := bytes.Cut(head, []byte("\r\n"))
		head = rest
		if len(line) > len(name) && line[len(name)] == ':' && bytes.EqualFold(line[:len(name)], []byte(name)) {
			return bytes.TrimSpace(line[len(name)+1:]), true
		}
	}
	return nil, false
}
