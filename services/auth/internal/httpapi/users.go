package httpapi

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/pforte/pforte/services/auth/internal/people"
	"github.com/pforte/pforte/services/auth/internal/user"
	"github.com/pforte/pforte/services/auth/internal/web"
)

// members has the handlers of the household's members, invites and links.
type members struct{ *api }

// userBody is a user as AUTH-4.5 has them.
type userBody struct {
	ID          int64  `json:"id"`
	Username    string `json:"username"`
	DisplayName string `json:"display_name"`
	AvatarColor string `json:"avatar_color"`
	Role        string `json:"role"`
}

func bodyOf(u user.User) userBody {
	return userBody{
		ID: u.ID, Username: u.Username, DisplayName: u.DisplayName, AvatarColor: u.AvatarColor, Role: string(u.Role),
	}
}

// ListedUser is a user as GET /users lists them.
type ListedUser struct {
	userBody
	CreatedAt string `json:"created_at"` // RFC 3339, UTC, in seconds
}

// Listed returns users as GET /users lists them.
func Listed(users []user.User) []ListedUser {
	list := make([]ListedUser, 0, len(users))
	for _, u := range users {
		list = append(list, ListedUser{bodyOf(u), rfc3339(u.CreatedAt)})
	}
	return list
}

// listUsers is GET /users.
func (a members) listUsers(c echo.Context, _ web.Caller) (answer, error) {
	users, err := a.People.List(c.Request().Context())
	return data(Listed(users)), err
}

// createUser is POST /users.
func (a members) createUser(c echo.Context, s web.Caller, body struct {
	Username    string  `json:"username"`
	DisplayName string  `json:"display_name"`
	Password    string  `json:"password"`
	AvatarColor *string `json:"avatar_color"`
	Role        *string `json:"role"`
},
) (answer, error) {
	defer a.detach(c)()
	u, err := a.People.Create(c.Request().Context(), s.Session, people.NewUser(body))
	return userAnswer(http.StatusCreated, u), err
}

// deleteUser is DELETE /users/:id.
func (a members) deleteUser(c echo.Context, s web.Caller, id int64) (answer, error) {
	return done, a.People.Delete(c.Request().Context(), s.Session, id)
}
