package web

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/rules"
	"sluice/web/view"
)

// account shows who is signed in their own account.
func (s *Server) account(v *visit) error { return s.accountPage(v, http.StatusOK, nil, "") }

func (s *Server) accountPage(v *visit, status int, fields []rules.FieldError, message string) error {
	all, err := s.allSessions(v)
	if err != nil {
		return err
	}
	m := view.Account{User: &v.user, Sessions: all[v.user.ID], Form: view.NewForm(nil, fields), Problem: message}
	return v.page(status, view.AccountPage(v.frame("Your account", ""), m))
}

// allSessions are the sessions in force, by account, the latest begun first.
func (s *Server) allSessions(v *visit) (map[int64][]view.SessionLine, error) {
	users, err := s.deps.Admin.People.ListUsers(v.ctx)
	if err != nil {
		return nil, err
	}
	generations := make(map[int64]int64, len(users))
	for i := range users {
		if !users[i].Disabled {
			generations[users[i].ID] = users[i].Generation
		}
	}
	stored, err := s.deps.Admin.People.ListSessions(v.ctx)
	if err != nil {
		return nil, err
	}
	here := v.sessionID()
	out := map[int64][]view.SessionLine{}
	for i := range stored {
		if strings.HasPrefix(stored[i].Token, invitePrefix) {
			continue
		}
		_, values, err := s.sessions.Codec.Decode(stored[i].Data)
		if err != nil {
			continue // of another build; it will expire
		}
		user, generation := number(values[sessionUser]), number(values[sessionGeneration])
		if user == 0 || generations[user] != generation {
			continue
		}
		line := view.SessionLine{ID: shortID(stored[i].Token), Expires: stored[i].ExpiresAt}
		line.Address, _ = values[sessionAddress].(string)
		line.Agent, _ = values[sessionAgent].(string)
		if began := number(values[sessionBegan]); began > 0 {
			line.Began = time.UnixMilli(began)
		}
		line.Here = line.ID == here
		out[user] = append(out[user], line)
	}
	for _, lines := range out {
		slices.SortFunc(lines, func(a, b view.SessionLine) int {
			return cmp.Or(b.Began.Compare(a.Began), cmp.Compare(a.ID, b.ID))
		})
	}
	return out, nil
}

func number(v any) int64 {
	n, _ := v.(int64)
	return n
}

// shortID names a session on a page without giving away even its hash.
func shortID(token string) string {
	sum := sha256.Sum256([]byte("session " + token))
	return hex.EncodeToString(sum[:8])
}

// sessionID is how the present session is named on pages.
func (v *visit) sessionID() string {
	sum := sha256.Sum256([]byte(v.server.sessions.Token(v.ctx)))
	return shortID(base64.RawURLEncoding.EncodeToString(sum[:])) // scs stores sessions under this hash
}
