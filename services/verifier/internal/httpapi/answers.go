package httpapi

import (
	"container/list"
	"sync"
)

// answers keeps signed answers by request, the latest used ones. An answer that
// was once right stays right: it is about a final block, the same question has
// the same bytes for ever, and each condition only ever comes to hold.
type answers struct {
	room int // bytes

	mu    sync.Mutex
	used  int
	byKey map[string]*list.Element
	order *list.List // of *kept, the latest used first
}

type kept struct {
	key    string
	answer []byte
}

func newAnswers(room int) *answers {
	return &answers{room: room, byKey: map[string]*list.Element{}, order: list.New()}
}

// get gives the answer to a request, or false. Nobody may change it.
func (a *answers) get(key string) ([]byte, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	element, ok := a.byKey[key]
	if !ok {
		return nil, false
	}
	a.order.MoveToFront(element)
	return element.Value.(*kept).answer, true
}

// put keeps an answer, and lets go of those that were not used for longest. It
// gives the bytes that are kept now.
func (a *answers) put(key string, answer []byte) (used int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.byKey[key]; ok || size(key, answer) > a.room {
		return a.used
	}
	a.byKey[key] = a.order.PushFront(&kept{key, answer})
	a.used += size(key, answer)
	for a.used > a.room {
		last := a.order.Back()
		k := a.order.Remove(last).(*kept)
		delete(a.byKey, k.key)
		a.used -= size(k.key, k.answer)
	}
	return a.used
}

// size is what an entry takes, about.
func size(key string, answer []byte) int { return len(key) + len(answer) + 200 }
