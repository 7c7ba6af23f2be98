package limiter

import "testing"

func TestDecision_WithBanIsTheStricterOfBoth(t *testing.T) {
	ban := Decision{RetryAfter: 500, Reset: 500, BanBegan: true}
	for _, tt := range []struct{ own, ban, want Decision }{
		{Decision{Allowed: true, Limit: 9, Remaining: 3, Reset: 70, Delay: 5}, ban,
			Decision{Limit: 9, RetryAfter: 500, Reset: 500, BanBegan: true}},
		{Decision{Limit: 9, RetryAfter: 700, Reset: 900}, ban,
			Decision{Limit: 9, RetryAfter: 700, Reset: 900, BanBegan: true}},
		{Decision{RetryAfter: Never, Reset: Never}, ban, Decision{RetryAfter: Never, Reset: Never, BanBegan: true}},
		{Decision{Limit: 9, RetryAfter: 70, Reset: 90}, Decision{Allowed: true, Limit: 3, Remaining: 2, Reset: 1000},
			Decision{Limit: 9, RetryAfter: 70, Reset: 90}},
	} {
		if got := tt.own.WithBan(tt.ban); got != tt.want {
			t.Errorf("got %+v, want %+v", got, tt.want)
		}
	}
}
