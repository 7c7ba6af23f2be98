package envoyfile

import (
	"encoding/base64"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"sluice/rules/chars"
	"sluice/rules/rulefile"
	"sluice/rules/tree"
	"sluice/rules/yamltree"
)

// Bounds of one document. A document of 100,000 descriptors in a usual form stays below them.
const (
	maxDocument = 16 << 20 // bytes
	// maxWeight bounds the memory that the library takes.
	maxWeight = 1_500_000
	// maxDepth is the greatest nesting of values, including values of aliases.
	maxDepth = 100
	// maxValues bounds the values. Values of an alias count each time.
	maxValues = 2_000_000
)

// split says what to do about a document above a bound.
const split = "split its descriptors into several documents (--- and the domain again) and import them merged " +
	"(--merge-domains, merge_domains=true)"

// loading is locked while a large document is read, so that only one takes much memory at a time.
var loading sync.Mutex

// yaml reads a YAML document and calls found if it contains a value. The library accepts the same grammar as the
// library of envoyproxy/ratelimit, and so reads the same files.
func (r *reader) yaml(data []byte, found func(tree.Value) error) error {
	if len(data) > maxDocument {
		return rulefile.TooLarge("has a document of more than %d bytes (16 MiB) at %s: %s", maxDocument, r.at(1), split)
	}
	switch w := yamltree.Weight(data); {
	case w > maxWeight:
		return rulefile.TooLarge("has a document with too many parts at %s; it can have about 100,000 descriptors of five "+
			"lines each, fewer of longer ones: %s", r.at(1), split)
	case w > maxWeight/10:
		loading.Lock()
		defer loading.Unlock()
	}
	y := yamltree.Reader{Depth: maxDepth, Values: maxValues, Scalar: scalar,
		Problem: func(p *tree.SyntaxError) { r.problem(p.Line, "%s", p.Message) }}
	return y.Read(data, func(v tree.Value) error {
		if v.Kind == tree.Null {
			return nil
		}
		return found(v)
	})
}

// scalar returns the kind and the text of a value by its tag, written or implied. An unknown tag means nothing, as in
// envoyproxy/ratelimit.
func scalar(n *yaml.Node) (kind tree.Kind, text, problem string) {
	bad := false
	kind = tree.Text
	switch n.ShortTag() {
	case "!!null":
		kind = tree.Null
	case "!!bool":
		kind = tree.Truth
		word := strings.ToLower(n.Value)
		bad = word != "true" && word != "false" && !slices.Contains(truths, word)
	case "!!int":
		if kind = tree.Number; tree.IsWhole(n.Value) {
			kind = tree.Whole
			break
		}
		_, whole := wholeNumber(n.Value)
		bad = !whole
	case "!!float":
		kind = tree.Number
		_, number := realNumber(n.Value)
		bad = !number
	case "!!binary":
		data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
		if bad = err != nil || !utf8.Valid(data); !bad {
			return tree.Text, string(data), ""
		}
	}
	if bad {
		return tree.Text, n.Value, tree.Shown(n.Value) + " is not a value of the tag " + n.ShortTag()
	}
	return kind, n.Value, ""
}

// realNumber reads a number with a fraction, or one without bounds or value (.inf, .nan).
func realNumber(text string) (float64, bool) {
	text = strings.ReplaceAll(text, "_", "")
	if infinite, dot := strings.CutPrefix(strings.TrimLeft(strings.ToLower(text), "+-"), "."); dot &&
		(infinite == "inf" || infinite == "nan") {
		return math.Inf(1), true
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}

// notAConfiguration recognises other files that people import by mistake. It returns "" for a configuration.
func notAConfiguration(root *tree.Value) string {
	if isValues(root) {
		return "these look like values of a Helm chart, of which only the chart's templates make a configuration: import " +
			"what they make, for example with helm template RELEASE CHART -f VALUES -s templates/CONFIGMAP.yaml | " +
			`yq '.data["KEY"]' | sluice rules import-envoy -`
	}
	kind := root.Member("kind")
	if kind == nil || kind.Kind != tree.Text || root.Member("apiVersion") == nil {
		return ""
	}
	if kind.Text == "RateLimitConfig" {
		return "this is a RateLimitConfig of Kubernetes, which does not say in which domain its requests are asked: import " +
			`its sets with that domain, for example with yq '{"domain": "DOMAIN", "setDescriptors": .spec.raw.setDescriptors}' FILE | ` +
			"sluice rules import-envoy -"
	}
	if kind.Text != "ConfigMap" {
		return "this is an object of Kubernetes (" + tree.Shown(kind.Text) + "), not a configuration of envoyproxy/ratelimit"
	}
	name, key := "NAME", "KEY"
	if m := root.Member("metadata"); m != nil && m.Member("name") != nil && chars.IsName(m.Member("name").Text) {
		name = m.Member("name").Text
	}
	if m := root.Member("data"); m != nil && len(m.Members) > 0 && chars.IsName(m.Members[0].Name) {
		key = m.Members[0].Name
	}
	return "this is a ConfigMap of Kubernetes, and each text in its data is a configuration: import those, for example " +
		"with kubectl get configmap " + name + ` -o go-template='{{index .data "` + key + `"}}' | sluice rules import-envoy -`
}

// usualValues are members of most files of Helm values.
var usualValues = []string{"image", "replicaCount", "fullnameOverride", "nameOverride", "resources", "serviceAccount",
	"nodeSelector", "tolerations", "podAnnotations", "imagePullSecrets", "global"}

// isValues recognises values of a Helm chart.
func isValues(root *tree.Value) bool {
	return root.Member("domain") == nil && root.Member("apiVersion") == nil &&
		slices.ContainsFunc(root.Members, func(m tree.Member) bool { return slices.Contains(usualValues, m.Name) })
}
