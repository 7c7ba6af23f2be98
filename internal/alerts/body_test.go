package alerts

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

func TestBodyOf_AKeyIsNoMarkupInSlack(t *testing.T) {
	var body struct {
		Text   string
		Blocks []struct{ Text struct{ Type, Text string } }
	}
	d := Data{Text: "The key user:<!channel> is hot.", Suppressed: 3}
	if err := json.Unmarshal(BodyOf(FormatSlack, string(KindKeyHot), time.UnixMilli(0), &d), &body); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(body.Text, "<>") || !strings.Contains(body.Text, "&lt;!channel&gt;") {
		t.Errorf("the text is %q", body.Text)
	}
	if b := body.Blocks[0].Text; b.Type != "plain_text" || !strings.HasSuffix(b.Text, "\n3 alerts in between not sent.") {
		t.Errorf("the block is %+v", b)
	}
}

// docs/alerts.md has a section for each kind.
func TestDocs_HaveEveryKind(t *testing.T) {
	doc, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range Kinds() {
		if !strings.Contains(string(doc), "\n### "+kind+"\n") {
			t.Errorf("docs/alerts.md has no section %s", kind)
		}
	}
}
