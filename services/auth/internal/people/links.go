package people

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/pforte/pforte/services/auth/internal/account"
	"github.com/pforte/pforte/services/auth/internal/link"
	"github.com/pforte/pforte/services/auth/internal/secrets"
	"github.com/pforte/pforte/services/auth/internal/session"
	"github.com/pforte/pforte/services/auth/internal/user"
)

// NewHousehold is what the first person types, and what a person types who joins by an invite and a passkey, for whom
// Household is not used. With a passkey there is no Password.
type NewHousehold struct {
	Household                       string // its name; may be empty
	Username, DisplayName, Password string
}

// NewInvite are the fields of an invite. An empty Username is chosen by the person, an
// empty Role is member.
type NewInvite struct {
	Username, DisplayName, Role string
	Former                      bool     // Username may be that of a deleted user
	Groups                      []string // slugs
	// LastDay is that of a guest, YYYY-MM-DD in the household's time; empty: the account has no end.
	LastDay string
}

// NewMember is what an invited person types. The Username counts only where the invite
// has none; an empty DisplayName is the invite's, or the username.
type NewMember struct{ Username, DisplayName, Password string }

// LinkOf returns the open link of a token and changes nothing. Errors are those of Links.Link.
func (s *Service) LinkOf(ctx context.Context, kind link.Kind, token string) (link.Link, error) {
	return s.links.Link(ctx, kind, secrets.Hash(token))
}

// IsEmpty reports whether there is no user yet, so that a set-up link is needed.
func (s *Service) IsEmpty(ctx context.Context) (bool, error) {
	_, err := s.links.Link(ctx, link.Setup, "") // no link has this hash
	switch {
	case errors.Is(err, link.ErrInvalid):
		return true, nil
	case errors.Is(err, user.ErrNotEmpty):
		return false, nil
	}
	return false, err
}

// CreateSetupLink returns a new set-up link and its token, for the operator; older ones are void. user.ErrNotEmpty.
func (s *Service) CreateSetupLink(ctx context.Context) (link.Link, string, error) {
	return s.createLink(ctx, link.Link{Kind: link.Setup, Role: string(user.Admin)}, session.Session{})
}

// Invite creates an invite on behalf of the admin of a session, or of user.Operator for the zero Session, and returns
// it with its token. The sentinels of user for its fields; user.ErrUsernameTaken, user.ErrUsernameFormer,
// user.ErrGuestAdmin, user.ErrNotAdmin; application.ErrGroupNotFound; session.ErrNotFound when the session has ended
// meanwhile.
func (s *Service) Invite(ctx context.Context, by session.Session, n NewInvite) (link.Link, string, error) {
	l := link.Link{
		Kind: link.Invite, Username: n.Username, Former: n.Former, Role: string(user.Member),
		Groups: slices.Compact(slices.Sorted(slices.Values(n.Groups))),
	}
	if n.Username != "" {
		if err := cmp.Or(user.CheckUsername(n.Username), user.CheckNoOption(n.Username)); err != nil {
			return link.Link{}, "", err
		}
	}
	if n.DisplayName != "" {
		name, err := user.CleanDisplayName(n.DisplayName)
		if err != nil {
			return link.Link{}, "", err
		}
		l.DisplayName = name
	}
	if n.Role != "" {
		role, err := user.ParseRole(n.Role)
		if err != nil {
			return link.Link{}, "", err
		}
		l.Role = string(role)
	}
	var err error
	if l.EndsAt, err = user.EndOf(n.LastDay, s.now(), s.location); err != nil {
		return link.Link{}, "", err
	}
	if n.LastDay != "" && l.Role == string(user.Admin) {
		return link.Link{}, "", user.ErrGuestAdmin
	}
	return s.createLink(ctx, l, by)
}

// ResetLink creates a link by which a user sets a new password, on behalf of the admin of a session as Invite does, and
// returns it with its token. Older ones of that user are void. account.ErrUseOwnPage, user.ErrNotFound,
// user.ErrNotAdmin; session.ErrNotFound.
func (s *Service) ResetLink(ctx context.Context, by session.Session, id int64) (link.Link, string, error) {
	if by.UserID == id {
		return link.Link{}, "", account.ErrUseOwnPage
	}
	return s.createLink(ctx, link.Link{Kind: link.Reset, UserID: id, Role: string(user.Member)}, by)
}

func (s *Service) createLink(ctx context.Context, l link.Link, by session.Session) (link.Link, string, error) {
	token := secrets.New()
	created, err := s.links.CreateLink(ctx, l, secrets.Hash(token), by)
	if err != nil {
		return link.Link{}, "", err
	}
	return created, token, nil
}

// Invites returns the open invites, newest first.
func (s *Service) Invites(ctx context.Context) ([]link.Link, error) { return s.links.Invites(ctx) }

// InviteOf returns an invite that is open, or was used: link.ErrUsed, with the user whom it created.
// link.ErrNotFound.
func (s *Service) InviteOf(ctx context.Context, id int64) (link.Link, error) {
	return s.links.Invite(ctx, id)
}

// DismissReset ends a request for a new password on behalf of an admin, without a link.
// user.ErrNotAdmin, user.ErrNotFound.
func (s *Service) DismissReset(ctx context.Context, by, id int64) error {
	return s.users.DismissReset(ctx, id, by)
}

// RevokeInvite makes an invite void. link.ErrNotFound, user.ErrNotAdmin.
func (s *Service) RevokeInvite(ctx context.Context, by, id int64) error {
	return s.links.RevokeInvite(ctx, id, by)
}

func colorOf(displayName string) *string {
	color := user.ColorOf(displayName)
	return &color
}

// Setup creates the first admin and sets the household's name unless it is empty. The link is read before the password
// is hashed, and used up in the transaction that creates the admin. link.ErrInvalid, link.ErrUsed, user.ErrNotEmpty;
// account.ErrMissing and the sentinels of password and user, after which the link can still be used.
func (s *Service) Setup(ctx context.Context, token string, n NewHousehold) (user.User, error) {
	hash := secrets.Hash(token)
	if _, err := s.links.Link(ctx, link.Setup, hash); err != nil {
		return user.User{}, err
	}
	first, household, err := n.check()
	if err != nil {
		return user.User{}, err
	}
	record, err := s.ownRecord(ctx, first, household)
	if err != nil {
		return user.User{}, err
	}
	return s.links.Setup(ctx, hash, record, nil, household)
}

func (n NewHousehold) check() (first NewUser, household string, err error) {
	if household, err = user.CleanHouseholdName(n.Household); err != nil {
		return NewUser{}, "", err
	}
	role := string(user.Admin)
	return NewUser{
		Username: n.Username, DisplayName: n.DisplayName, Password: n.Password, Role: &role,
		AvatarColor: colorOf(n.DisplayName),
	}, household, user.CheckNoOption(n.Username)
}

// Join creates the user of an invite. link.ErrInvalid, link.ErrUsed; account.ErrMissing, the sentinels of
// password and user, user.ErrUsernameTaken, user.ErrUsernameFormer, user.ErrUsernameReserved, after which the link can
// still be used.
func (s *Service) Join(ctx context.Context, token string, n NewMember) (user.User, error) {
	hash := secrets.Hash(token)
	l, err := s.links.Link(ctx, link.Invite, hash)
	if err != nil {
		return user.User{}, err
	}
	invited, err := n.check(l)
	if err != nil {
		return user.User{}, err
	}
	record, err := s.ownRecord(ctx, invited)
	if err != nil {
		return user.User{}, err
	}
	return s.links.Join(ctx, hash, record, nil)
}

// check returns the fields of the user whom an invite creates. user.ErrUsernameReserved.
func (n NewMember) check(l link.Link) (NewUser, error) {
	if l.Username != "" {
		n.Username = l.Username
	} else if err := user.CheckChosenUsername(n.Username); err != nil {
		return NewUser{}, err
	}
	name := cmp.Or(n.DisplayName, l.DisplayName, n.Username)
	return NewUser{
		Username: n.Username, DisplayName: name, Password: n.Password, Role: &l.Role, AvatarColor: colorOf(name),
	}, nil
}

// newcomer returns the open link of a person who joins, or sets the household up, by a passkey, with the user whom it
// creates and the household's name.
func (s *Service) newcomer(
	ctx context.Context, hash string, n NewHousehold,
) (l link.Link, record user.New, household string, err error) {
	var who NewUser
	if l, err = s.links.Link(ctx, link.Invite, hash); err == nil {
		who, err = NewMember{Username: n.Username, DisplayName: n.DisplayName}.check(l)
	} else if errors.Is(err, link.ErrInvalid) && !errors.Is(err, link.ErrUsed) {
		if l, err = s.links.Link(ctx, link.Setup, hash); errors.Is(err, user.ErrNotEmpty) {
			err = link.ErrInvalid
		}
		if err == nil {
			who, household, err = n.check()
		}
	}
	if err != nil {
		return link.Link{}, user.New{}, "", err
	}
	record, err = who.record()
	record.PasswordHash = user.NoPassword
	if err == nil {
		err = s.users.CheckTaken(ctx, record.Username)
	}
	if err == nil && l.Username == "" {
		err = s.users.CheckFormer(ctx, record.Username)
	}
	return l, record, household, err
}

// CheckNewcomer returns the error of PasskeyOptions about the link or what a person typed; nil: there is none.
func (s *Service) CheckNewcomer(ctx context.Context, token string, n NewHousehold) error {
	_, _, _, err := s.newcomer(ctx, secrets.Hash(token), n)
	return err
}

// PasskeyOptions begins the registration of the passkey of a person who joins by an invite, or sets the household up,
// without a password. link.ErrInvalid, link.ErrUsed; account.ErrMissing, the sentinels of user for the fields,
// user.ErrUsernameTaken and user.ErrUsernameFormer; factor.ErrPasskeysUnavailable.
func (s *Service) PasskeyOptions(ctx context.Context, token string, n NewHousehold) (account.PasskeyCeremony, error) {
	hash := secrets.Hash(token)
	_, record, household, err := s.newcomer(ctx, hash, n)
	if err != nil {
		return account.PasskeyCeremony{}, err
	}
	return s.accounts.Passkeys.NewcomerOptions(ctx, account.Newcomer{
		Link: hash, Household: household, Username: record.Username, DisplayName: record.DisplayName,
	})
}

// JoinByPasskey creates the user of an invite or a set-up link, who has the passkey that answered and no password.
// Errors are those of PasskeyOptions; factor.ErrPasskeyFailed, factor.ErrPasskeyExists; user.ErrNotEmpty for a set-up.
func (s *Service) JoinByPasskey(
	ctx context.Context, token string, answer account.PasskeyAnswer, userAgent string,
) (user.User, error) {
	hash := secrets.Hash(token)
	typed, key, err := s.accounts.Passkeys.Newcomer(ctx, hash, answer, userAgent)
	if err != nil {
		return user.User{}, err
	}
	l, record, household, err := s.newcomer(ctx, hash, NewHousehold{
		Household: typed.Household, Username: typed.Username, DisplayName: typed.DisplayName,
	})
	switch {
	case err != nil:
		return user.User{}, err
	case l.Kind == link.Setup:
		return s.links.Setup(ctx, hash, record, &key, household)
	}
	return s.links.Join(ctx, hash, record, &key)
}

// ResetPasswordByLink sets the password of a link's user and ends all their sessions.
// No session is created, and a second factor stays.
// link.ErrInvalid, link.ErrUsed; account.ErrMissing and the sentinels of password, after which the
// link can still be used and the password is the old one; account.ErrPending.
func (s *Service) ResetPasswordByLink(ctx context.Context, token, replacement string) error {
	hash := secrets.Hash(token)
	l, err := s.links.Link(ctx, link.Reset, hash)
	if err != nil {
		return err
	}
	if replacement == "" {
		return account.ErrMissing
	}
	if err := s.accounts.CheckPassword(ctx, replacement, l.Username, l.DisplayName); err != nil {
		return err
	}
	newHash, err := s.passwords.Hash(ctx, replacement)
	if err != nil {
		return err
	}
	r, err := s.links.ResetByLink(ctx, hash, newHash)
	_, err = s.accounts.Follow(ctx, r, err)
	return err
}

// AskForReset opens a request of a user for a new password, which admins see. It returns before the name is looked
// up, so that nothing tells whether there is such a user.
func (s *Service) AskForReset(ctx context.Context, username string) {
	s.audit.Note(ctx, func(ctx context.Context) {
		if err := s.users.AskForReset(ctx, username); err != nil && !errors.Is(err, user.ErrNotFound) {
			s.log.WarnContext(ctx, "record request for a new password failed", "error", err)
		}
	})
}

// ownRecord returns the record of a user whose password the person themselves chooses: it may be no well-known one, and
// none of the user's names and others.
func (s *Service) ownRecord(ctx context.Context, n NewUser, others ...string) (user.New, error) {
	record, err := n.check()
	if err == nil {
		err = s.accounts.CheckPassword(ctx, n.Password, append(others, record.Username, record.DisplayName)...)
	}
	if err == nil {
		record.PasswordHash, err = s.passwords.Hash(ctx, n.Password)
	}
	return record, err
}
