package sqldb

import (
	"errors"
	"os"
	"syscall"
)

// datasync waits until what was written to a file is on the disk, and its length,
// but not when it was written, as SQLite does it (fdatasync(2)).
func datasync(file *os.File) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var fault error
	err = conn.Control(func(fd uintptr) {
		for fault = syscall.EINTR; errors.Is(fault, syscall.EINTR); {
			fault = syscall.Fdatasync(int(fd))
		}
	})
	return errors.Join(err, fault)
}
