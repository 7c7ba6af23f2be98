package playbook

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// section is the part of a page below one heading of the second level.
type section struct {
	title  string
	blocks []block
}

// block is one fenced block that is run.
type block struct {
	language string // yaml, play, or play redis
	text     string
	line     int // of its first line
}

// playRedis is the language of blocks that run only with Redis.
const playRedis = "play redis"

// parsePage returns the sections that have blocks to run.
func parsePage(text string) ([]section, error) {
	sections := []section{{title: "Introduction"}}
	var open *block
	for i, line := range strings.Split(text, "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		current := &sections[len(sections)-1]
		switch {
		case isFence && open == nil:
			open = &block{language: strings.TrimSpace(fence), line: i + 2}
		case isFence:
			switch open.language {
			case "yaml", "play", playRedis:
				current.blocks = append(current.blocks, *open)
			}
			open = nil
		case open != nil:
			open.text += line + "\n"
		case strings.HasPrefix(line, "## "):
			sections = append(sections, section{title: strings.TrimSpace(line[3:])})
		}
	}
	if open != nil {
		return nil, fmt.Errorf("line %d: the block is not closed", open.line-1)
	}
	played := sections[:0]
	for _, s := range sections {
		if len(s.blocks) > 0 {
			played = append(played, s)
		}
	}
	return played, nil
}

// step is one line of a play with its continuation lines.
type step struct {
	line int
	// One of: the time to set, the time that passes, a request, or the end of Redis.
	at       time.Time
	after    time.Duration
	request  *request
	expected *expected
	stops    bool // Redis
}

type request struct {
	times                    int
	method, path, body       string
	headerNames, headerLines []string
}

// expected is what every answer to the request must contain.
type expected struct {
	status int
	body   string
}

var (
	requestLine = regexp.MustCompile(`^(?:(\d+)x )?([A-Z]+) (/\S*)(?: (.*))?$`)
	answerLine  = regexp.MustCompile(`^-> (\d{3})(?: (.*))?$`)
	headerLine  = regexp.MustCompile(`^([A-Z][A-Za-z-]+): (.*)$`)
)

// parsePlay reads the steps of a block.
func parsePlay(b block) ([]step, error) {
	var steps []step
	for i, line := range strings.Split(b.text, "\n") {
		at := b.line + i
		fail := func(format string, args ...any) ([]step, error) {
			return nil, fmt.Errorf("line %d: %s", at, fmt.Sprintf(format, args...))
		}
		trimmed := strings.TrimSpace(line)
		var last *step
		if len(steps) > 0 {
			last = &steps[len(steps)-1]
		}
		switch {
		case trimmed == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, " "):
			if last == nil || last.request == nil {
				return fail("goes on with nothing")
			}
			last.goOn(trimmed)
		case strings.HasPrefix(line, "at "):
			t, err := time.Parse(time.RFC3339, trimmed[3:])
			if err != nil {
				return fail("%v", err)
			}
			steps = append(steps, step{line: at, at: t})
		case strings.HasPrefix(line, "after "):
			d, err := time.ParseDuration(trimmed[6:])
			if err != nil || d <= 0 {
				return fail("%q is no time to pass", trimmed[6:])
			}
			steps = append(steps, step{line: at, after: d})
		case trimmed == "redis stops":
			steps = append(steps, step{line: at, stops: true})
		case answerLine.MatchString(line):
			if last == nil || last.request == nil || last.expected != nil {
				return fail("answers no request")
			}
			m := answerLine.FindStringSubmatch(line)
			status, err := strconv.Atoi(m[1])
			if err != nil {
				return fail("%v", err)
			}
			last.expected = &expected{status: status, body: m[2]}
		case requestLine.MatchString(line):
			m := requestLine.FindStringSubmatch(line)
			times := 1
			if m[1] != "" {
				var err error
				if times, err = strconv.Atoi(m[1]); err != nil || times < 1 {
					return fail("%q times is not possible", m[1])
				}
			}
			steps = append(steps, step{line: at, request: &request{times: times, method: m[2], path: m[3], body: m[4]}})
		default:
			return fail("cannot be read: %s", line)
		}
	}
	for _, s := range steps {
		if s.request != nil && s.expected == nil {
			return nil, fmt.Errorf("line %d: the request has no answer", s.line)
		}
	}
	return steps, nil
}

// goOn reads a continuation line.
func (s *step) goOn(line string) {
	switch m := headerLine.FindStringSubmatch(line); {
	case s.expected != nil:
		s.expected.body += "\n" + line
	case m != nil && s.request.body == "":
		s.request.headerNames = append(s.request.headerNames, m[1])
		s.request.headerLines = append(s.request.headerLines, m[2])
	default:
		s.request.body = strings.TrimPrefix(s.request.body+"\n"+line, "\n")
	}
}
