package e2e

import "testing"

// The commonest tasks of a household, in at most the clicks and fields of clients/tasks.mjs.

func TestTask_OpensAnApplication(t *testing.T) {
	inAllVariants(t, func(t *testing.T, v variant) {
		h := commonHousehold(t)
		h.journey(t, "open.mjs", v.asMember(t, h, "ida")...)
	})
}

func TestTask_SetsUpCodesFromAnApp(t *testing.T) {
	inAllVariants(t, func(t *testing.T, v variant) {
		h := commonHousehold(t)
		h.journey(t, "codes.mjs", v.asMember(t, h, "cora")...)
	})
}

func TestTask_AddsAPasskeyAndLogsInByIt(t *testing.T) {
	inAllVariants(t, func(t *testing.T, v variant) {
		h := commonHousehold(t)
		h.journey(t, "key.mjs", v.asMember(t, h, "kim")...)
	})
}
