package webtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/field"
)

// Names are who has which role.
var Names = map[access.Role]string{access.RoleViewer: "vera", access.RoleEditor: "edda", access.RoleAdmin: "ada"}

func people() []access.User {
	var list []access.User
	for i, r := range access.Roles() {
		list = append(list, access.User{
			ID: int64(i + 1), Name: Names[r], Role: r, PasswordHash: passwordHash, Generation: 1,
			CreatedBy: "first start", CreatedAt: Now.Add(-720 * time.Hour), UpdatedAt: Now.Add(-24 * time.Hour),
			LastLogin: new(Now.Add(-time.Duration(i+1) * 31 * time.Hour)),
		})
	}
	return list
}

// Passwords is a Hasher whose lanes can be full. Checking a password costs equally little, whether or not the account
// exists. Busy may be changed between requests.
type Passwords struct {
	*access.Hasher
	Busy map[access.Lane]bool
	// Stuck makes every caller wait for a turn until the context of the caller ends.
	Stuck bool
	// Entered, if not nil, receives for everyone who has a turn, who then waits until Leave is closed.
	Entered chan<- struct{}
	Leave   <-chan struct{}
}

// turn returns once the caller may hash.
func (p *Passwords) turn(ctx context.Context, lane access.Lane) error {
	if p.Busy[lane] {
		return access.ErrBusy
	}
	if p.Stuck {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	if p.Entered != nil {
		p.Entered <- struct{}{}
		<-p.Leave
	}
	return nil
}

// HashPassword implements kit.Passwords.
func (p *Passwords) HashPassword(ctx context.Context, lane access.Lane, password string) (string, error) {
	if err := p.turn(ctx, lane); err != nil {
		return "", err
	}
	return p.Hasher.HashPassword(ctx, lane, password)
}

// CheckPassword implements kit.Passwords.
func (p *Passwords) CheckPassword(ctx context.Context, lane access.Lane, hash, password string) (bool, error) {
	if err := p.turn(ctx, lane); err != nil {
		return false, err
	}
	if hash == "" {
		_, err := p.Hasher.CheckPassword(ctx, lane, passwordHash, password)
		return false, err
	}
	return p.Hasher.CheckPassword(ctx, lane, hash, password)
}

// Users are accounts in memory, safe for concurrent use. Err, if not nil, is
// what every call fails with.
type Users struct {
	mu   sync.Mutex
	list []access.User
	Err  error
}

func (f *Users) find(fits func(*access.User) bool) (access.User, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Err != nil {
		return access.User{}, f.Err
	}
	for i := range f.list {
		if fits(&f.list[i]) {
			return f.list[i], nil
		}
	}
	return access.User{}, rules.ErrNotFound
}

// GetUser implements kit.Users.
func (f *Users) GetUser(_ context.Context, id int64) (access.User, error) {
	return f.find(func(u *access.User) bool { return u.ID == id })
}

// GetUserByName implements kit.Users.
func (f *Users) GetUserByName(_ context.Context, name string) (access.User, error) {
	return f.find(func(u *access.User) bool { return u.Name == name })
}

// CountUsers implements kit.Users.
func (f *Users) CountUsers(context.Context) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int64(len(f.list)), f.Err
}

// CreateUser implements kit.Users.
func (f *Users) CreateUser(_ context.Context, actor rules.Actor, u access.User, first bool) (access.User, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.Err != nil:
		return access.User{}, f.Err
	case first && len(f.list) > 0:
		return access.User{}, access.ErrNotFirst
	case u.Name == "":
		return access.User{}, &field.ValidationError{
			Fields: []field.Problem{{Field: "name", Message: "must not be empty"}}}
	}
	u.ID, u.Generation, u.CreatedBy, u.CreatedAt = int64(len(f.list)+1), 1, actor.Name, Now
	f.list = append(f.list, u)
	return u, nil
}

// Change edits the account of a name, as another admin would in the meantime.
func (f *Users) Change(name string, edit func(*access.User)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		if f.list[i].Name == name {
			edit(&f.list[i])
			f.list[i].Generation++
		}
	}
}

// NoteLogin implements kit.Users.
func (f *Users) NoteLogin(_ context.Context, id int64, at time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		if f.list[i].ID == id {
			f.list[i].LastLogin = &at
		}
	}
	return f.Err
}

// Sessions are sessions in memory, safe for concurrent use.
type Sessions struct {
	mu      sync.Mutex
	clock   *Clock
	byToken map[string]access.Session
	next    map[string]string // what took the place of a session
	Err     error
	// DeleteErr is what deleting a session answers.
	DeleteErr error
	// Writes counts what was written.
	Writes int
	// BeforeDelete, if not nil, is called before a session is deleted.
	BeforeDelete func()
}

// FindSession implements kit.Sessions.
func (f *Sessions) FindSession(_ context.Context, token string) (access.Session, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.byToken[token]
	return s, ok && f.clock.Now().Before(s.ExpiresAt) && f.Err == nil, f.Err
}

// EndAll ends every session, as another node would in the meantime.
func (f *Sessions) EndAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.byToken)
}

// CreateSession implements kit.Sessions.
func (f *Sessions) CreateSession(_ context.Context, s access.Session) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Err == nil {
		f.Writes++
		f.byToken[s.Token] = s
	}
	return f.Err
}

// UpdateSession implements kit.Sessions.
func (f *Sessions) UpdateSession(_ context.Context, s access.Session) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, found := f.byToken[s.Token]
	if f.Err != nil || !found {
		return false, f.Err
	}
	if s.Data == nil {
		s.Data = before.Data
	}
	f.Writes++
	f.byToken[s.Token] = s
	return true, nil
}

// ReplaceSession implements kit.Sessions.
func (f *Sessions) ReplaceSession(_ context.Context, old string, s access.Session) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, found := f.byToken[old]; f.Err != nil || !found {
		return false, f.Err
	}
	f.Writes++
	delete(f.byToken, old)
	f.byToken[s.Token] = s
	if f.next == nil {
		f.next = map[string]string{}
	}
	f.next[old] = s.Token
	return true, nil
}

// DeleteSession implements kit.Sessions.
func (f *Sessions) DeleteSession(_ context.Context, token string) error {
	if f.BeforeDelete != nil {
		f.BeforeDelete()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for there := f.Err == nil && f.DeleteErr == nil; there; {
		delete(f.byToken, token)
		token, there = f.next[token]
	}
	return errors.Join(f.Err, f.DeleteErr)
}

// Len is how many sessions there are.
func (f *Sessions) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.byToken)
}
