package ratelimit

// Windows is how many windows the store holds.
func Windows(m *MemoryStore) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.windows)
}
