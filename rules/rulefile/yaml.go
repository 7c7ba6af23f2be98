package rulefile

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"sluice/rules/tree"
	"sluice/rules/yamltree"
)

// readYAML reads the only document of data. Anchors, aliases, merge keys and tags are refused, so that every element
// of a long file can be read without the others.
func readYAML(data []byte) (root tree.Value, err error) {
	if yamltree.Weight(data) > maxWeight {
		return tree.Value{}, &tree.SyntaxError{Line: 1, Column: 1, Message: "has too many parts; split the file"}
	}
	var first *tree.SyntaxError
	r := yamltree.Reader{Depth: maxDepth, Values: len(data) + 1, Plain: true, Scalar: scalar,
		Problem: func(p *tree.SyntaxError) {
			if first == nil {
				first = p
			}
		}}
	empty := true
	err = r.Read(data, func(v tree.Value) error {
		root, empty = v, false
		return nil
	})
	switch {
	case err != nil:
		return root, err
	case first != nil:
		return root, first
	case empty:
		return root, &tree.SyntaxError{Line: 1, Column: 1, Message: "is empty"}
	}
	return root, nil
}

// scalar returns the kind of a scalar. Text in quotes and block text is text.
func scalar(n *yaml.Node) (kind tree.Kind, text, problem string) {
	if n.Style != 0 {
		return tree.Text, n.Value, ""
	}
	return plainKind(n.Value), n.Value, ""
}

// plainKind returns the kind of a text without quotes. A number has an optional sign and digits, which _ can separate,
// with 0x, 0o, 0b or 0 before digits of another base. A number that 64 bits cannot hold is text, unless it is in plain
// digits.
func plainKind(text string) tree.Kind {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return tree.Null
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return tree.Truth
	case ".inf", ".Inf", ".INF", "-.inf", "-.Inf", "-.INF", ".nan", ".NaN", ".NAN":
		return tree.Number
	}
	if text[0] > '9' || text[0] == '/' {
		return tree.Text
	}
	sign := ""
	if text[0] == '-' {
		sign = "-"
	}
	digits := strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(text, "+"), "-"), "_", "")
	base, kind := 0, tree.Number
	switch {
	case strings.HasPrefix(digits, "0x"):
		base, digits = 16, digits[2:]
	case strings.HasPrefix(digits, "0o"):
		base, digits = 8, digits[2:]
	case strings.HasPrefix(digits, "0b"):
		base, digits = 2, digits[2:]
	case strings.Contains(digits, "."):
	case len(digits) > 1 && digits[0] == '0':
		base = 8
	default:
		base, kind = 10, tree.Whole
	}
	var err error
	switch {
	case base == 0:
		_, err = strconv.ParseFloat(sign+digits, 64)
	case sign != "":
		_, err = strconv.ParseInt(sign+digits, base, 64)
	default:
		_, err = strconv.ParseUint(digits, base, 64)
	}
	switch {
	case err == nil:
		return kind
	case tree.IsWhole(text):
		return tree.Whole
	}
	return tree.Text
}
