package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every command of docs/backtest.md is run, and prints what the page says; … stands for lines that are left out.
func TestBacktest_ThePageIsTrue(t *testing.T) {
	t.Chdir("../..")
	page, err := os.ReadFile("docs/backtest.md")
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile("docs/backtest/demand.svg")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sh\n(sluice backtest [^\n]*)\n```\n(?:\n```text\n(.*?)```)?")
	ran := 0
	for _, m := range block.FindAllStringSubmatch(string(page), -1) {
		drawn := t.TempDir() + "/demand.svg"
		args := strings.Fields(strings.ReplaceAll(m[1], "docs/backtest/demand.svg", drawn))
		code, out, errs := sluice(t, "", args[1:]...)
		if code != 0 {
			t.Fatalf("%s: exit code %d, %s", m[1], code, errs)
		}
		ran++
		for part := range strings.SplitSeq(m[2], "\n…\n") {
			if !strings.Contains(out, part) {
				t.Errorf("%s does not print\n%s\nbut\n%s", m[1], part, out)
			}
		}
		if strings.Contains(m[1], "--svg") {
			if got, err := os.ReadFile(drawn); err != nil || string(got) != string(picture) {
				t.Errorf("docs/backtest/demand.svg is not what %s draws (%v)", m[1], err)
			}
		}
	}
	if ran != 3 {
		t.Errorf("%d commands were run: has the page changed its form?", ran)
	}
}

func TestBacktest_RefusesWhatItCannotRead(t *testing.T) {
	t.Chdir("../..")
	dir := t.TempDir()
	newer := dir + "/newer.jsonl"
	if err := os.WriteFile(newer, []byte("{\"schema\":2,\"ts\":{}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rules := "docs/backtest/today.yaml"
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--rules", rules}, "set either --log or --kafka"},
		{[]string{"--rules", rules, "--kafka=decisions", "--brokers=127.0.0.1:1", "--kafka-sasl=plain", "--kafka-user=u",
			"--kafka-password-file=" + dir + "/none"}, "--kafka-password-file (SLUICE_KAFKA_PASSWORD_FILE)"},
		{[]string{"--rules", rules, "--kafka=decisions", "--brokers=127.0.0.1:1", "--kafka-ca-file=ca.pem"},
			"requires --kafka-tls"},
		{[]string{"--rules", rules, "--log", newer, "--suggest", "r", "--today", rules}, "can't be used together"},
		{[]string{"--rules", rules, "--log", newer, "--suggest", "r", "--svg", dir + "/x.svg"}, "can't be used together"},
		{[]string{"--rules", rules, "--log", dir + "/none.jsonl"}, "no such file"},
		{[]string{"--rules", dir + "/none.yaml", "--log", dir}, "--rules: open "},
		{[]string{"--rules", rules, "--today", dir + "/none.yaml", "--log", dir}, "--today: open "},
		{[]string{"--rules", rules, "--log", newer}, "use the version of Sluice that wrote the log"},
		{[]string{"--rules", rules, "--log", newer, "--from", "noon"}, "--from"},
		{[]string{"--rules", rules, "--log", newer, "--suggest", "none"}, "no active rule"},
		{[]string{"--rules", rules, "--log", t.TempDir()}, "has no files that end in .jsonl"},
	} {
		if code, _, errs := sluice(t, "", append([]string{"backtest"}, tt.args...)...); code == 0 ||
			!strings.Contains(errs, tt.want) {
			t.Errorf("%v: exit code %d, %q; want %q", tt.args, code, errs, tt.want)
		}
	}
}
