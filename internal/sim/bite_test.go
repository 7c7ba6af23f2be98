package sim

import (
	"testing"

	"sluice/api/decide"
)

// mostSeeds is the number of seeds within which a defect must be noticed.
const mostSeeds = 200

// caught returns the violation of the first seed that notices a defect.
func caught(opt Options) error {
	for seed := range uint64(mostSeeds) {
		if _, err := Run(seed, opt); err != nil {
			return err
		}
	}
	return nil
}

func TestChecks_NoticeABrokenStore(t *testing.T) {
	for name, d := range map[string]Defect{
		"charges denied requests":            ChargesDenied,
		"ignores request records":            ForgetsRecords,
		"forgets to roll back":               KeepsHalf,
		"refunds twice":                      RefundsTwice,
		"admits one unit too many":           AdmitsOneMore,
		"keeps records of lost charges":      KeepsRecords,
		"answers a repeat as if it were new": HidesReplay,
		"loses a charge it confirmed":        DropsCharge,
		"loses more than a failover may":     LosesMore,
	} {
		t.Run(name, func(t *testing.T) {
			err := caught(Options{Defect: d})
			if err == nil {
				t.Fatalf("unnoticed in %d seeds", mostSeeds)
			}
			t.Logf("noticed by %v", err)
		})
	}
}

func TestChecks_NoticeAFalseAnswer(t *testing.T) {
	for name, tamper := range map[string]func(*decide.Answer){
		"forgets the degraded mark": func(a *decide.Answer) { a.Degraded = "" },
		"admits while closed": func(a *decide.Answer) {
			if a.Verdict == decide.Unavailable {
				a.Verdict = decide.Allowed
			}
		},
		"calls a denial by limit an outage": func(a *decide.Answer) {
			if a.Verdict == decide.Denied {
				a.Verdict = decide.Unavailable
			}
		},
		"lets a shadow limit deny": func(a *decide.Answer) {
			for i := range a.Limits {
				if a.Limits[i].Shadow && !a.Limits[i].Decision.Allowed {
					a.Verdict = decide.Denied
				}
			}
		},
		"forgets that an answer is a repeat": func(a *decide.Answer) { a.Replayed = false },
		"makes remaining up": func(a *decide.Answer) {
			for i := range a.Limits {
				a.Limits[i].Decision.Remaining++
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := caught(Options{Tamper: tamper})
			if err == nil {
				t.Fatalf("unnoticed in %d seeds", mostSeeds)
			}
			t.Logf("noticed by %v", err)
		})
	}
}
