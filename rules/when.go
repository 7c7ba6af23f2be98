package rules

import "fmt"

// condition is a rule's when, compiled.
type condition struct{ source string }

func compileCondition(source string) (*condition, error) {
	if len(source) > MaxWhen {
		return nil, fmt.Errorf("must not be longer than %d bytes", MaxWhen)
	}
	return &condition{source: source}, nil
}

// holds says whether the rule's condition is true of the request.
func (k *keyer) holds(c *Compiled, weight int64) bool { return true }
