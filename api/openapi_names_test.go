package api

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Several generators have one name space for all kinds of components, without regard to case.
func TestGenerators_OneNameIsOneComponent(t *testing.T) {
	c := loadCommitted(t).Components
	kinds := map[string][]string{}
	add := func(kind string, names []string) {
		for _, name := range names {
			kinds[strings.ToLower(name)] = append(kinds[strings.ToLower(name)], kind+" "+name)
		}
	}
	add("schema", slices.Collect(maps.Keys(c.Schemas)))
	add("parameter", slices.Collect(maps.Keys(c.Parameters)))
	add("header", slices.Collect(maps.Keys(c.Headers)))
	add("body", slices.Collect(maps.Keys(c.RequestBodies)))
	add("response", slices.Collect(maps.Keys(c.Responses)))
	for _, of := range kinds {
		if len(of) > 1 {
			t.Errorf("one name for %v", of)
		}
	}
}

// ownedNames are the names that a program has without an import of its own, and those that generators give to parts of
// their clients. Names that no schema could have by chance are left out.
var ownedNames = map[string]string{
	"java.lang, and imports of openapi-generator's templates": `
		Appendable AutoCloseable CharSequence Cloneable Comparable Iterable Readable Runnable
		Boolean Byte Character Class ClassLoader ClassValue Double Enum Float Integer Long Math Module ModuleLayer Number
		Object Package Process ProcessBuilder ProcessHandle Record Runtime RuntimePermission SecurityManager Short
		StackTraceElement StackWalker StrictMath String StringBuffer StringBuilder StringTemplate System Thread ThreadGroup
		ThreadLocal Throwable Void Exception Error Deprecated FunctionalInterface Override SafeVarargs SuppressWarnings
		ApiCallback ApiClient ApiException ApiResponse Arrays Collection Collections Configuration Date File HashMap
		HashSet InputStream JSON List Locale Map Objects Optional Pair Set StringJoiner Type URI UUID`,
	"the globals of TypeScript 5.9 with lib.dom, and of Node": `
		Algorithm Animatable Animation Array Atomics Attr Audio Awaited BigInt Blob Body Boolean Buffer Cache Capitalize
		Clipboard Collator Comment Console Credential Crypto Date Disposable Document Element Error Event Exclude Exports
		External Extract File Function Gamepad Generator Geolocation Global Headers Highlight History Image Imports
		Infinity Instance Intl Iterable Iterator Keyframe Locale Location Lock Lowercase Map Math Memory Module Navigator
		Node Notification Number Object Omit Option Parameters Partial Performance Permissions Pick Plugin Process Promise
		Proxy Range Readonly Record Reflect Report Request Required Response Screen Segmenter Segments Selection Set
		Slottable Storage String Symbol Table Text Touch Transferable Transformer Uncapitalize Uppercase URL Window Worker
		Worklet`,
	"typing and the constants of Python, and pydantic": `
		Annotated Any Awaitable BaseModel Callable Collection Container Coroutine Counter Deque Dict Ellipsis Exception
		False Field Final Generator Generic Hashable IO Iterable Iterator List Literal Mapping Match Never None
		NotImplemented Optional Pattern Protocol Required Reversible Self Sequence Set Sized Text True Tuple Type Union
		Unpack Unset Warning`,
	"the prelude of Rust": `
		AsMut AsRef Box Clone Copy Debug Default Drop Eq Err Extend Fn FnMut FnOnce From Future Hash Into Iterator None Ok
		Option Ord PartialEq PartialOrd Result Self Send Sized Some String Sync ToOwned ToString TryFrom TryInto Unpin
		Vec`,
	"the implicit usings of C#": `
		Action Activator Array Attribute Barrier Boolean Buffer Byte Char Console Convert DateTime Decimal Delegate
		Dictionary Directory Double Enum Environment Exception File Func Guid Half HashSet Index Interlocked Lazy List
		Lock Lookup Math Monitor Nullable Object Parallel Path Predicate Progress Queue Random Range Single Stack Stream
		String Task Thread Timeout Timer Tuple Type Uri Version Void`,
	"Swift with Foundation, and Kotlin": `
		Actor Any Array Bundle Character Collection Data Date Decimal Dictionary Double Encoder Error Float Host Int Lazy
		Measurement Mirror Never Nothing Notification Operation Optional Pair Process Progress Regex Result Scanner
		Sequence Set Stream String Thread Timer Triple Unit URL`,
	"Ruby and PHP": `
		Array Class Closure Comparable Enumerable Exception Generator Hash Integer Kernel Module Object Proc Range String
		Struct Symbol Time`,
	"the clients of oapi-codegen and ogen": `
		Client ClientInterface ClientOption ClientWithResponses ErrorHandler Handler HttpRequestDoer Invoker Middleware
		RequestEditorFn RequestOption SecurityHandler SecuritySource Server ServerInterface UnimplementedHandler`,
}

func TestGenerators_NoSchemaHasANameOfALanguage(t *testing.T) {
	for name := range loadCommitted(t).Components.Schemas {
		for of, names := range ownedNames {
			if slices.ContainsFunc(strings.Fields(names), func(s string) bool { return strings.EqualFold(s, name) }) {
				t.Errorf("the schema %s has a name of %s", name, of)
			}
		}
	}
}

// Generators make types for an operation, which they name after it.
func TestGenerators_NoSchemaHasANameMadeForAnOperation(t *testing.T) {
	doc := loadCommitted(t)
	schemas := map[string]string{}
	for name := range doc.Components.Schemas {
		schemas[strings.ToLower(name)] = name
	}
	endings := strings.Fields(`Request Response Responses Req Res Params Data Error Errors Body JSONBody RequestBody
		JSONRequestBody Result Query Variables Headers OK Created NoContent BadRequest Conflict NotFound`)
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			for _, ending := range endings {
				if name := schemas[strings.ToLower(op.OperationID+ending)]; name != "" {
					t.Errorf("the schema %s has a name that generators make for the operation %s", name, op.OperationID)
				}
			}
		}
	}
}

// A generator names the type of a member with an enum after the member, inside that of the schema, or after both.
func TestGenerators_NoSchemaHasTheNameOfAnEnum(t *testing.T) {
	schemas := loadCommitted(t).Components.Schemas
	taken := map[string]string{}
	for name := range schemas {
		taken[strings.ToLower(name)] = name
	}
	for name, ref := range schemas {
		for member, p := range ref.Value.Properties {
			if p.Ref != "" || len(p.Value.Enum) == 0 {
				continue
			}
			member := strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(member))
			if strings.EqualFold(member, name) {
				t.Errorf("%s has the name of its member %s", name, member)
			}
			if other := taken[strings.ToLower(name)+member]; other != "" {
				t.Errorf("%s has the name that generators make for the member %s of %s", other, member, name)
			}
		}
	}
}

// A client that decodes an enum refuses a word that it does not know, so it would fail on an answer of a newer server.
// The members of an answer that a caller decides by have x-extensible-enum.
func TestGenerators_WordsOfAnAnswerMayBecomeMore(t *testing.T) {
	schemas := loadCommitted(t).Components.Schemas
	for schema, members := range map[string][]string{
		"Answer":      {"degraded", "deferred", "not_deferred"},
		"LimitAnswer": {"degraded"},
		"Problem":     {"type"},
		"Denial":      {"type"},
	} {
		for _, member := range members {
			p := schemas[schema].Value.Properties[member].Value
			if known, _ := p.Extensions["x-extensible-enum"].([]any); len(p.Enum) > 0 || len(known) == 0 {
				t.Errorf("%s of %s: enum %v, x-extensible-enum %v", member, schema, p.Enum, known)
			}
		}
	}
}

// operationId is the name of a method: a verb first, or a name that an integrator knows as a verb.
func TestGenerators_OperationsAreCalledByVerbs(t *testing.T) {
	verb := regexp.MustCompile(`^(ack|charge|check|create|delete|exchange|explain|export|get|import|list|patch|` +
		`promote|put|refund|release|renew|report|reserve|reset|restore|rollback|rotate|settle|test)([A-Z]|$)`)
	known := []string{"shouldRateLimit", "forwardAuth", "nginxAuth", "extAuthz"}
	for path, item := range loadCommitted(t).Paths.Map() {
		for method, op := range item.Operations() {
			if !verb.MatchString(op.OperationID) && !slices.Contains(known, op.OperationID) {
				t.Errorf("%s %s is called %s", method, path, op.OperationID)
			}
		}
	}
}
