package override

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// address draws one of few addresses, so that networks meet.
func address(t *rapid.T) netip.Addr {
	if rapid.Bool().Draw(t, "IPv4") {
		return netip.AddrFrom4([4]byte{10, byte(rapid.SampledFrom([]int{0, 1, 128}).Draw(t, "b")), 0,
			byte(rapid.SampledFrom([]int{0, 1, 2, 255}).Draw(t, "d"))})
	}
	var b [16]byte
	b[0], b[15] = 0x20, byte(rapid.IntRange(0, 1).Draw(t, "p"))
	b[1] = byte(rapid.SampledFrom([]int{0, 1, 0x80}).Draw(t, "b"))
	return netip.AddrFrom16(b)
}

func networkOf(t *rapid.T) netip.Prefix {
	ip := address(t)
	lengths := []int{0, 1, 8, 9, 10, 24, 31, 32}
	if ip.Is6() {
		lengths = append(lengths, 64, 127, 128)
	}
	return netip.PrefixFrom(ip, rapid.SampledFrom(lengths).Draw(t, "bits")).Masked()
}

// The compiled networks and a list with the same history agree, through edits,
// deletions, expiry, merges and a copy on disk.
func TestNetworks_AgreeWithAList(t *testing.T) {
	type name struct {
		user string
		p    netip.Prefix
	}
	forms := map[string]string{"": "{ip:%s}", "a": "{user:a}+ip:%s", "b": "{user:b}+ip:%s+route:/v1"}
	users := []string{"", "a", "b"}
	rapid.Check(t, func(t *rapid.T) {
		o := New()
		model := map[name]Row{}
		at := int64(1_790_000_000_000)
		for step := range rapid.IntRange(1, 8).Draw(t, "steps") {
			at += rapid.Int64Range(0, 50).Draw(t, "passed")
			e := o.Edit()
			for range rapid.IntRange(1, 8).Draw(t, "edits") {
				n := name{rapid.SampledFrom(users).Draw(t, "user"), networkOf(t)}
				s := Row{RuleID: 7, ID: rapid.Int64Range(1, 1000).Draw(t, "id"), Match: fmt.Sprintf(forms[n.user], n.p),
					Limit: rapid.Int64Range(0, 3).Draw(t, "limit"), Burst: -1,
					Deleted: rapid.IntRange(0, 3).Draw(t, "delete") == 0}
				if rapid.Bool().Draw(t, "ends") {
					s.ExpiresMS = at + rapid.Int64Range(-20, 100).Draw(t, "end")
				}
				e.Add(s)
				if delete(model, n); !s.Deleted {
					model[n] = s
				}
			}
			o = e.Done(int64(step), at)
			switch rapid.IntRange(0, 2).Draw(t, "then") {
			case 0: // everything merged
				for id, rs := range o.byRule {
					o.byRule[id] = &OfRule{seed: rs.seed, networks: mergeNetworks(rs.networks, rs.recentNetworks, true, at)}
				}
			case 1:
				o = copied(t, o, at)
			}
			for range 20 {
				n := name{rapid.SampledFrom(users).Draw(t, "user"), netip.Prefix{}}
				ip := address(t)
				counted := netip.PrefixFrom(ip, ip.BitLen())
				if rapid.Bool().Draw(t, "counted by networks") {
					counted = netip.PrefixFrom(ip, rapid.SampledFrom([]int{9, 24}).Draw(t, "counted")).Masked()
				}
				var want Row
				network := uint8(0)
				for bits := range counted.Bits() + 1 {
					n.p = netip.PrefixFrom(ip, bits).Masked()
					if s, ok := model[n]; ok && (s.ExpiresMS == 0 || s.ExpiresMS > at) {
						want, network = s, uint8(bits+1)
						if bits == counted.Bits() {
							network = 0
						}
					}
				}
				var a Applied
				var f *Effect
				if r := o.Of(7); r != nil {
					a, f = r.Network([]byte(fmt.Sprintf(forms[n.user], counted.Addr())), counted, at)
				}
				if a.ID != want.ID || a.Network != network || (f != nil) != (want.ID != 0) || f != nil && f.limit != want.Limit {
					t.Fatalf("%s under %s for %q: got %+v, want %+v of a network of %d", ip, counted, n.user, a, want, network-1)
				}
			}
		}
	})
}

// copied writes and reads a table.
func copied(t rapid.TB, o *Table, at int64) *Table {
	var file bytes.Buffer
	if err := o.Write(&file, at); err != nil {
		t.Fatal(err)
	}
	read, err := Read(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func TestRead_RefusesOtherFormats(t *testing.T) {
	var file bytes.Buffer
	if err := New().Write(&file, 1); err != nil {
		t.Fatal(err)
	}
	for _, other := range []byte{0, format - 1, format + 1} {
		file.Bytes()[3] = other
		if _, err := Read(file.Bytes()); !errors.Is(err, errFormat) || !strings.Contains(err.Error(), "this version reads") {
			t.Errorf("format %d: %v", other, err)
		}
	}
}

func TestReadNetworks_RefusesWhatWasNotWritten(t *testing.T) {
	good := new(bytes.Buffer)
	o, list := manyNetworks(20, rand.New(rand.NewPCG(1, 2))) //nolint:gosec // a fixed sequence is wanted
	if err := o.Write(good, 1); err != nil {
		t.Fatal(err)
	}
	for n := range good.Len() {
		if _, err := Read(good.Bytes()[:n]); err == nil {
			t.Fatalf("%d of %d bytes are taken for a whole", n, good.Len())
		}
	}
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a fixed sequence is wanted
	for range 2000 {
		bad := bytes.Clone(good.Bytes())
		bad[random.IntN(len(bad))] ^= byte(1 + random.IntN(255))
		if o, err := Read(bad); err == nil && o.Of(7) != nil { // the file around it has a checksum; here it must not panic
			for _, p := range list {
				o.Of(7).Network([]byte("{ip:}"), netip.PrefixFrom(p.Addr(), p.Addr().BitLen()), 1)
			}
		}
	}
}

func TestNetworks_AnEditLeavesTheBaseWhereItIs(t *testing.T) {
	o, list := manyNetworks(10_000, rand.New(rand.NewPCG(5, 6))) //nolint:gosec // a fixed sequence is wanted
	e := o.Edit()
	e.Add(Row{RuleID: 7, ID: 50_000, Match: "{ip:" + list[17].String() + "}", Limit: 3, Burst: -1})
	e.Add(Row{RuleID: 7, Match: "{ip:" + list[18].String() + "}", Deleted: true})
	edited := e.Done(2, 1)
	if edited.byRule[7].networks != o.byRule[7].networks {
		t.Error("one edit copies all networks of the rule")
	}
	for i, want := range map[int]int64{17: 50_000, 19: 20} {
		if a, _ := edited.Of(7).Network([]byte("{ip:}"), list[i], 1); a.ID != want {
			t.Errorf("after the edit: got %+v, want %d", a, want)
		}
	}
	if a, _ := edited.Of(7).Network([]byte("{ip:}"), list[18], 1); a.ID == 19 {
		t.Error("a deleted network is found")
	}
	e = edited.Edit()
	e.Add(Row{RuleID: 7, Deleted: true})
	if after := e.Done(3, 1); after.Len() != 0 || after.Of(7) != nil {
		t.Errorf("%d are left of a deleted rule", after.Len())
	}
}

// manyNetworks makes n networks of rule 7 as block lists have them, with ids from 1, and returns them.
func manyNetworks(n int, random *rand.Rand) (*Table, []netip.Prefix) {
	e := New().Edit()
	list := make([]netip.Prefix, 0, n)
	seen := map[netip.Prefix]bool{}
	for len(list) < n {
		ip := netip.AddrFrom4([4]byte{byte(1 + random.IntN(223)), byte(random.IntN(256)), byte(random.IntN(256)),
			byte(random.IntN(256))})
		bits := 12 + random.IntN(17) // 12 to 28
		if random.IntN(5) == 0 {
			ip = netip.AddrFrom16([16]byte{0x20, 0x01, byte(random.IntN(256)), byte(random.IntN(256)),
				byte(random.IntN(256)), byte(random.IntN(256)), byte(random.IntN(256))})
			bits = 29 + random.IntN(28)
		}
		p := netip.PrefixFrom(ip, bits).Masked()
		if seen[p] {
			continue
		}
		seen[p] = true
		list = append(list, p)
		e.Add(Row{RuleID: 7, ID: int64(len(list)), Match: "{ip:" + p.String() + "}", Blocked: true, Limit: -1, Burst: -1})
	}
	return e.Done(1, 1), list
}

// A network takes 56 bytes, whatever its length. A quarter of the 100,000 of a long list must fit in a quarter of 8 MB.
func TestNetworks_FitInMemoryAndAllocateNothing(t *testing.T) {
	const n = 25_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	o, list := manyNetworks(n, rand.New(rand.NewPCG(7, 8))) //nolint:gosec // a fixed sequence is wanted
	list = slices.Clone(list[:100])
	runtime.GC()
	runtime.ReadMemStats(&after)
	if size := after.HeapAlloc - before.HeapAlloc; size > 2<<20 {
		t.Errorf("%d networks take %d bytes, want less than 2 MB", n, size)
	}
	facts := []byte("{ip:192.0.2.1}")
	i := 0
	if got := testing.AllocsPerRun(100, func() {
		i++
		if _, f := o.Of(7).Network(facts, list[i%len(list)], 1); f == nil {
			t.Errorf("%s is not found", list[i%len(list)])
		}
	}); got > 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

func BenchmarkNetworks(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		o, _ := manyNetworks(n, rand.New(rand.NewPCG(9, 10))) //nolint:gosec // a fixed sequence is wanted
		random := rand.New(rand.NewPCG(11, 12))               //nolint:gosec // a fixed sequence is wanted
		asked := make([]netip.Prefix, 1<<14)
		for i := range asked {
			asked[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(random.IntN(256)), byte(random.IntN(256)), 1, 2}), 32)
		}
		b.Run(fmt.Sprintf("match/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				o.Of(7).Network([]byte("{ip:192.0.2.1}"), asked[i&(1<<14-1)], 1)
				i++
			}
		})
		b.Run(fmt.Sprintf("edit/%d", n), func(b *testing.B) {
			o := o
			i := 0
			for b.Loop() {
				e := o.Edit()
				e.Add(Row{RuleID: 7, ID: 1, Match: "{ip:" + asked[i&(1<<14-1)].String() + "}", Limit: 1, Burst: -1})
				o = e.Done(2, 1)
				i++
			}
		})
		b.Run(fmt.Sprintf("load/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				manyNetworks(n, rand.New(rand.NewPCG(9, 10))) //nolint:gosec // a fixed sequence is wanted
			}
		})
	}
}
