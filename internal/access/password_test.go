package access

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func hashed(t *testing.T, h *Hasher, password string) string {
	t.Helper()
	hash, err := h.HashPassword(t.Context(), LaneStrangers, password)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func fits(t *testing.T, h *Hasher, hash, password string) bool {
	t.Helper()
	ok, err := h.CheckPassword(t.Context(), LaneStrangers, hash, password)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestHashPassword_LetsOnlyThatPasswordIn(t *testing.T) {
	const password = "correct horse battery"
	h := NewHasher()
	hash, again := hashed(t, h, password), hashed(t, h, password)
	if hash == again || strings.Contains(hash, password) || !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("hashes %s and %s", hash, again)
	}
	if !fits(t, h, hash, password) || !fits(t, h, again, password) {
		t.Error("the password itself is refused")
	}
	for _, wrong := range []string{"", "correct horse batter", "correct horse battery ",
		strings.Repeat("x", MaxPassword+1)} {
		if fits(t, h, hash, wrong) {
			t.Errorf("%q gets in", wrong)
		}
	}
}

func TestCheckPassword_BrokenHashLetsNobodyIn(t *testing.T) {
	h := NewHasher()
	good := hashed(t, h, "correct horse battery")
	for _, hash := range []string{
		"", "x", decoy, strings.Replace(good, "argon2id", "argon2i", 1), strings.Replace(good, "m=19456", "m=999999999", 1),
		strings.Replace(good, "t=2", "t=99", 1), strings.Replace(good, "p=1", "p=0", 1), good[:len(good)-8] + "!!!!!!!!",
		good + "$", "$argon2id$v=19$m=8,t=1,p=1$$",
	} {
		for _, password := range []string{"", "correct horse battery"} {
			if fits(t, h, hash, password) {
				t.Errorf("hash %q lets %q in", hash, password)
			}
		}
	}
}

func TestCheckNewPassword_AsksForLength(t *testing.T) {
	tests := []struct {
		password string
		want     error
	}{
		{"twelve chars", nil},
		{"äöüäöüäöüäöü", nil},
		{"eleven char", ErrPasswordShort},
		{"", ErrPasswordShort},
		{strings.Repeat("ab", MaxPassword/2), nil},
		{strings.Repeat("ab", MaxPassword/2) + "c", ErrPasswordLong},
		{"broken \xff text here", ErrPasswordText},
		{"aaaaaaaaaaaaaaaa", ErrPasswordObvious},
		{"GRACE.HOPPER@NAVY", ErrPasswordObvious},
		{"leavemealone", ErrPasswordCommon},
		{"Administrator", ErrPasswordCommon},
		{"123qweasdzxc", ErrPasswordCommon},
		{"leavemealone now", nil},
		{"leavemealone\nlhbjkjubz2957704", nil},
	}
	for _, tt := range tests {
		if got := CheckNewPassword("grace.hopper@navy", tt.password); !errors.Is(got, tt.want) {
			t.Errorf("%q: got %v, want %v", tt.password, got, tt.want)
		}
	}
}

func TestCommonPasswords_AreSortedOnceInLowerCaseAndLongEnough(t *testing.T) {
	list := strings.Split(strings.TrimSuffix(commonPasswords, "\n"), "\n")
	if len(list) < 300 || !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
		t.Errorf("%d passwords, which are not sorted or not distinct", len(list))
	}
	for _, p := range list {
		if p != strings.ToLower(p) || utf8.RuneCountInString(p) < MinPassword || !isCommon(strings.ToUpper(p)) {
			t.Errorf("%q is no password of the list, or not found", p)
		}
	}
}

func TestRole_IncludesTheNarrowerOnes(t *testing.T) {
	for i, have := range Roles() {
		for j, want := range Roles() {
			if got := have.Includes(want); got != (i >= j) {
				t.Errorf("%s includes %s: %v", have, want, got)
			}
		}
		if have.Includes("") || have.Includes("root") || Role("").Includes(have) || Role("root").Includes(have) {
			t.Errorf("%s and what is no role include each other", have)
		}
	}
	if _, err := ParseRole("root"); err == nil || !strings.Contains(err.Error(), "viewer, editor, admin") {
		t.Errorf("got %v", err)
	}
}

func TestUser_PrintsNoHash(t *testing.T) {
	u := User{ID: 7, Name: "ada", Role: RoleAdmin, PasswordHash: "$argon2id$secret"}
	for _, text := range []string{fmt.Sprint(u), fmt.Sprintf("%+v", u), fmt.Sprintf("%#v", u), u.LogValue().String()} {
		if strings.Contains(text, "secret") || !strings.Contains(text, "ada") {
			t.Errorf("got %s", text)
		}
	}
}
