package stack

import (
	"context"
	"time"
)

// End asks one program to end, as Stop asks all, and returns when it has. Other
// programs may be started and asked meanwhile.
func (s *Stack) End(ctx context.Context, name string, grace time.Duration) {
	if p := s.remove(name); p != nil {
		p.stop(ctx, grace)
	}
}

// remove takes a program out of what Stop stops. Its end is not reported.
func (s *Stack) remove(name string) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range s.running {
		if p.program.Name == name {
			p.stopping.Store(true)
			s.running = append(s.running[:i:i], s.running[i+1:]...)
			return p
		}
	}
	return nil
}
