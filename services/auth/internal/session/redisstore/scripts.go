package redisstore

import (
	_ "embed" // the Lua scripts
	"strings"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/now.lua
	luaNow string
	//go:embed lua/values.lua
	luaValues string
	//go:embed lua/fence.lua
	luaFence string
	//go:embed lua/create.lua
	luaCreate string
	//go:embed lua/load.lua
	luaLoad string
	//go:embed lua/addcsrf.lua
	luaAddCSRF string
	//go:embed lua/delete.lua
	luaDelete string
	//go:embed lua/revoke.lua
	luaRevoke string
	//go:embed lua/setrole.lua
	luaSetRole string
	//go:embed lua/list.lua
	luaList string
)

// scripts are sent by their hash, and in full only when Redis does not have them.
type scripts struct {
	fence, create, load, addCSRF, remove, revoke, setRole, list *redis.Script
}

func newScripts() scripts {
	script := func(parts ...string) *redis.Script { return redis.NewScript(strings.Join(parts, "\n")) }
	return scripts{
		fence:   script(luaFence),
		create:  script(luaNow, luaCreate),
		load:    script(luaNow, luaValues, luaLoad),
		addCSRF: script(luaAddCSRF),
		remove:  script(luaDelete),
		revoke:  script(luaRevoke),
		setRole: script(luaSetRole),
		list:    script(luaValues, luaList),
	}
}
