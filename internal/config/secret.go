package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Secret is a setting that holds a secret, or a URL with a password. A field of this type makes two settings: that of
// its tags, and one with the path of a file that contains the value. The names of the latter end in -file and _FILE.
// The tag changed says what a change of the file does. The value is never shown, or as a URL without the password if
// the tag url is "true".
type Secret struct{ Value, File string }

// IsSet reports whether the value or a file is set.
func (s Secret) IsSet() bool { return s != Secret{} }

// NamedSecret is a secret with the setting of its value.
type NamedSecret struct {
	Setting
	*Secret
}

// FileEnv is the environment variable of the file.
func (s *NamedSecret) FileEnv() string { return s.file("").Env }

// FileNames are the flag and the environment variable of the file, for people.
func (s *NamedSecret) FileNames() string {
	file := s.file("")
	return fmt.Sprintf("%s (%s)", file.Flag, file.Env)
}

// file is the setting with the path of a file that contains the value of s.
func (s Setting) file(changed string) Setting {
	return Setting{Group: s.Group, Flag: s.Flag + "-file", Env: s.Env + "_FILE", Help: fmt.Sprintf(
		"File with the value of %s. %s within 10s. Not together with %[1]s.", s.Flag, changed)}
}

// Secrets lists every secret of the struct that of points to.
func Secrets(of any) []NamedSecret {
	v := reflect.ValueOf(of).Elem()
	var out []NamedSecret
	for _, f := range fieldsOf(v.Type(), "") {
		if secret, ok := v.FieldByIndex(f.index).Addr().Interface().(*Secret); ok {
			out = append(out, NamedSecret{f.setting, secret})
		}
	}
	return out
}

// secrets reports each secret that is set both by itself and by a file.
func (c *checker) secrets(of any) {
	for _, s := range Secrets(of) {
		if s.Value != "" && s.File != "" {
			c.errs = append(c.errs, fmt.Errorf("%s (%s) and %s must not both be set; keep one of them", s.Flag, s.Env,
				s.FileNames()))
		}
	}
}

// SecretFlags makes a parser accept fields of the type Secret, each with its two flags.
func SecretFlags() kong.Option {
	text := kong.NewRegistry().RegisterDefaults().ForType(reflect.TypeFor[string]())
	return kong.OptionFunc(func(k *kong.Kong) error {
		return errors.Join(
			kong.TypeMapper(reflect.TypeFor[Secret](), text).Apply(k),
			kong.PostBuild(func(k *kong.Kong) error {
				addFiles(k.Model.Node)
				return nil
			}).Apply(k))
	})
}

// addFiles splits each flag of a secret in those of its value and its file.
func addFiles(n *kong.Node) {
	for i := len(n.Flags) - 1; i >= 0; i-- {
		f := n.Flags[i]
		secret, ok := f.Target.Addr().Interface().(*Secret)
		if !ok {
			continue
		}
		f.Target, f.DefaultValue = reflect.ValueOf(&secret.Value).Elem(), reflect.Zero(reflect.TypeFor[string]())
		file := Setting{Flag: "--" + f.Name, Env: f.Tag.Envs[0]}.file(f.Tag.Get("changed"))
		n.Flags = slices.Insert(n.Flags, i+1, fileFlag(f, file, &secret.File))
	}
	for _, child := range n.Children {
		addFiles(child)
	}
}

// fileFlag is the flag that sets path, the file of the secret of f.
func fileFlag(f *kong.Flag, file Setting, path *string) *kong.Flag {
	value := *f.Value
	value.Name, value.Help, value.OrigHelp = strings.TrimPrefix(file.Flag, "--"), file.Help, file.Help
	value.Target = reflect.ValueOf(path).Elem()
	value.Tag = &kong.Tag{Name: value.Name, Help: file.Help, Envs: []string{file.Env}, PlaceHolder: "FILE"}
	value.Flag = &kong.Flag{Value: &value, Group: f.Group, PlaceHolder: "FILE", Envs: value.Tag.Envs}
	return value.Flag
}
