package load

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// Run does a job.
func Run(ctx context.Context, j Job) (Result, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	addr, err := netip.ParseAddrPort(j.Addr)
	if err != nil {
		return Result{}, fmt.Errorf("load: %w", err)
	}
	l := &loop{job: j, conns: map[int32]*conn{}, latencies: make([]time.Duration, 0, 1<<16), answered: make([]time.Duration, 0, 1<<16)}
	defer l.close()
	if l.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return Result{}, fmt.Errorf("load: epoll: %w", err)
	}
	for range j.Conns {
		if err := l.dial(addr); err != nil {
			return Result{}, err
		}
	}
	return l.run(ctx)
}

// gather is how long answers on many connections may gather before they are
// looked at. A server that wakes somebody on its own machine with every answer
// pays for that; network cards, too, let packets gather before they interrupt.
var gather = syscall.NsecToTimespec((200 * time.Microsecond).Nanoseconds())

// loop asks on many connections from one thread.
type loop struct {
	job       Job
	epoll     int
	conns     map[int32]*conn
	began     time.Time
	waiting   int
	latencies []time.Duration
	answered  []time.Duration // when each answer came, since began
}

// conn is one connection with one request under way.
type conn struct {
	fd    int
	asked time.Time
	got   []byte
}

func (l *loop) close() {
	for _, c := range l.conns {
		_ = syscall.Close(c.fd)
	}
	_ = syscall.Close(l.epoll)
}

func (l *loop) dial(addr netip.AddrPort) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("load: socket: %w", err)
	}
	l.conns[int32(fd)] = &conn{fd: fd, got: make([]byte, 0, 16<<10)}
	err = syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()})
	if err == nil {
		err = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	}
	if err == nil {
		err = syscall.SetNonblock(fd, true)
	}
	if err == nil {
		err = syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)})
	}
	if err != nil {
		return fmt.Errorf("load: connect to %s: %w", addr, err)
	}
	return nil
}

func (l *loop) run(ctx context.Context) (Result, error) {
	l.began = time.Now()
	for _, c := range l.conns {
		if err := l.ask(c, time.Now()); err != nil {
			return Result{}, err
		}
	}
	events := make([]syscall.EpollEvent, 256)
	for l.waiting > 0 && ctx.Err() == nil {
		if l.job.Conns > 1 {
			_ = syscall.Nanosleep(&gather, nil)
		}
		n, err := syscall.EpollWait(l.epoll, events, int(stall.Milliseconds()))
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return Result{}, fmt.Errorf("load: %s does not answer: %w", l.job.Addr, err)
		}
		for _, event := range events[:n] {
			if err := l.read(l.conns[event.Fd]); err != nil {
				return Result{}, err
			}
		}
	}
	slices.Sort(l.latencies)
	if len(l.answered) == 0 {
		return Result{}, ctx.Err()
	}
	return Result{
		Answers: len(l.answered), Took: l.answered[len(l.answered)-1], Rate: steadyRate(l.answered, l.job.For), Latencies: l.latencies,
	}, ctx.Err()
}

func (l *loop) ask(c *conn, now time.Time) error {
	request := l.job.Request()
	c.asked, c.got = now, c.got[:0]
	n, err := syscall.Write(c.fd, request)
	if err != nil || n < len(request) {
		return fmt.Errorf("load: sent %d of %d bytes to %s: %w", n, len(request), l.job.Addr, err)
	}
	l.waiting++
	return nil
}

func (l *loop) read(c *conn) error {
	if len(c.got)+8<<10 > cap(c.got) {
		c.got = slices.Grow(c.got, 64<<10)
	}
	n, err := syscall.Read(c.fd, c.got[len(c.got):cap(c.got)])
	if err == syscall.EAGAIN || err == syscall.EINTR { //nolint:errorlint // plain errnos
		return nil
	}
	if err != nil || n == 0 {
		return fmt.Errorf("load: %s closed a connection: %w", l.job.Addr, err)
	}
	c.got = c.got[:len(c.got)+n]
	status, ok, err := whole(c.got)
	if err != nil || !ok {
		return err
	}
	if status != l.job.Status {
		return fmt.Errorf("load: %s answered %d, not %d: %.600s", l.job.Addr, status, l.job.Status, c.got)
	}
	if l.job.Each != nil {
		l.job.Each(c.got)
	}
	l.waiting--
	now := time.Now()
	since := now.Sub(l.began)
	l.latencies, l.answered = append(l.latencies, now.Sub(c.asked)), append(l.answered, since)
	if since > l.job.For {
		return nil
	}
	return l.ask(c, now)
}
