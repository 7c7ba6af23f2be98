package kit

import (
	"testing"

	"github.com/a-h/templ"
)

func TestMessage_NoEndOfALineBeginsAnEvent(t *testing.T) {
	v := &Visit{Ctx: t.Context()}
	got, _, err := v.message(templ.Raw("<p>a\revent: ended\r\ndata: session\n\n\rb</p>"), nil)
	want := "data: <p>a\ndata: event: ended\ndata: data: session\ndata: \ndata: \ndata: b</p>\n\n"
	if err != nil || got != want {
		t.Errorf("the message is %q, want %q, error %v", got, want, err)
	}
}
