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
		for _, f := range fieldsOf(reflect.TypeOf(v), "") {
			out = append(out, f.setting)
			if f.isSecret() {
				out = append(out, f.setting.file(f.tag.Get("changed")))
			}
		}
	}
	return out
}

// settingField is a field that is a setting, or a secret.
type settingField struct {
	setting Setting
	index   []int // as reflect.Value.FieldByIndex takes it
	tag     reflect.StructTag
	kind    reflect.Type
}

func (f *settingField) isSecret() bool { return f.kind == reflect.TypeFor[Secret]() }

// fieldsOf lists the fields of a struct that are settings. Those of Fixed have no variable.
func fieldsOf(t reflect.Type, group string) []settingField {
	var out []settingField
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case f.Anonymous:
			for _, inner := range fieldsOf(f.Type, f.Tag.Get("group")) {
				inner.index = append([]int{i}, inner.index...)
				out = append(out, inner)
			}
		case f.Tag.Get("env") != "":
			out = append(out, settingField{index: []int{i}, tag: f.Tag, kind: f.Type, setting: Setting{
				Group: group, Flag: "--" + f.Tag.Get("name"), Env: f.Tag.Get("env"),
				Default: f.Tag.Get("default"), Help: f.Tag.Get("help"),
			}})
		}
	}
	return out
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
