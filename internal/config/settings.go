package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Setting describes one setting as the reference documentation shows it.
type Setting struct {
	Group, Flag, Env, Default, Help string
}

// Settings lists every setting of the given structs in order of declaration.
func Settings(of ...any) []Setting {
	var out []Setting
	for _, v := range of {
		out = append(out, settingsOf(reflect.TypeOf(v), "")...)
	}
	return out
}

func settingsOf(t reflect.Type, group string) []Setting {
	var out []Setting
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case f.Anonymous:
			out = append(out, settingsOf(f.Type, f.Tag.Get("group"))...)
		case isSetting(f):
			out = append(out, Setting{
				Group: group, Flag: "--" + f.Tag.Get("name"), Env: f.Tag.Get("env"),
				Default: f.Tag.Get("default"), Help: f.Tag.Get("help"),
			})
		}
	}
	return out
}

// isSetting is false for fields of tests and for removed settings.
func isSetting(f reflect.StructField) bool {
	_, hidden := f.Tag.Lookup("hidden")
	return f.Tag.Get("env") != "" && !hidden
}

// Markdown renders settings as tables, one a group.
func Markdown(settings []Setting) string {
	var b strings.Builder
	group := "\x00"
	for _, s := range settings {
		if s.Group != group {
			group = s.Group
			if b.Len() > 0 {
				b.WriteString("\n")
			}
			if group != "" {
				fmt.Fprintf(&b, "### %s\n\n", group)
			}
			b.WriteString("| flag | environment | default | meaning |\n|---|---|---|---|\n")
		}
		def := "none"
		if s.Default != "" {
			def = "`" + s.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", s.Flag, s.Env, def, s.Help)
	}
	return b.String()
}
