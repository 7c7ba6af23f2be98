package updates

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/region"
	"sluice/internal/tick"
	"sluice/internal/trouble"
	"sluice/limiter"
)

const (
	// RecallType is the media type of a Ask and of the page that answers it.
	RecallType = "application/vnd.sluice.regions.recall"
	// askWait bounds the wait for a page, and restoreWait the length of a restore. During a restore nothing is
	// exported, so that other regions do not count the units that this one spends.
	askWait, restoreWait = 5 * time.Second, 30 * time.Second
	// pageBuckets is about the number of sums in a page. A node collects them for pageWait, and sends fewer then.
	pageBuckets, pageWait = 5000, 500 * time.Millisecond
	// pageWindows is the number of windows that ends a page: the windows of another thousand buckets, the largest
	// number that can follow, still fit.
	pageWindows = 300_000
	// restoreShown is for how long it is at least shown that a region did not answer, unless it answers a later restore:
	// longer than people let an alert wait.
	restoreShown = 10 * time.Minute
)

var restoreFailing = trouble.Declare(trouble.Condition{Code: "region_restore_failing",
	Advice: "see to the nodes of that region, and to the network between the regions", Of: "region",
	Starts: "the Redis of this region was empty, and another region did not answer what this one had spent",
	Ends:   "that region answered a later restore, or ten minutes are over; it may count units that this one does not"})

// restoreWhenLost restores the store each time that an export was refused because the data are lost, until ctx ends.
func (x *Exchange) restoreWhenLost(ctx context.Context) {
	for turn := false; ; {
		select {
		case <-ctx.Done():
			return
		case turn = <-x.lost:
		}
		if err := x.restore(ctx, turn); err != nil && ctx.Err() == nil {
			x.opt.Log.Warn("restoring the units that this region had spent failed; it is tried again", "error", err)
		}
	}
}

// refusals are the buckets that a restore has left out because the shard that holds them did not answer. A nil
// *refusals records none. It is safe for concurrent use.
type refusals struct {
	mu   sync.Mutex
	keys []limiter.Key
	err  error
}

// add notes a bucket and reports whether it did: not if the time of the restore is over, or there are too many.
func (r *refusals) add(ctx context.Context, key limiter.Key, err error) bool {
	if r == nil || ctx.Err() != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.keys) >= mostWaiting {
		return false
	}
	r.keys, r.err = append(r.keys, key), cmp.Or(r.err, err)
	return true
}

// restore counts units again that were spent before the store lost its data: the units that this node had exported and
// another region lacks, and, if it is this node's turn, the units that other regions know. Nothing is exported until
// that ends. It takes two intervals at least, so that the other nodes of this region add what they had exported.
// Several nodes may restore at the same time, and repeat it. After an error, or after another loss, the next export is
// refused again. If some slots of a cluster did not answer, only their buckets cannot be exported until then.
func (x *Exchange) restore(ctx context.Context, turn bool) error {
	x.mu.Lock()
	mine := x.box.Waiting()
	x.mu.Unlock()
	if !turn && len(mine) == 0 {
		return nil
	}
	name := rand.Text()
	if began, err := x.opt.Store.BeginRestore(ctx, name); err != nil || !began {
		return err
	}
	start := x.opt.Now()
	within, cancel := context.WithTimeout(ctx, restoreWait)
	defer cancel()
	found, refused := Answer{}, &refusals{}
	if err := x.apply(within, x.opt.Self, bucketsOf(mine), &found, start, refused); err != nil || !turn {
		return err
	}
	errs := make([]error, len(x.peers))
	var asking sync.WaitGroup
	var applied atomic.Int64
	for i, p := range x.peers {
		asking.Go(func() { errs[i] = x.recall(within, p, &applied, refused) })
	}
	asking.Wait()
	for i, p := range x.peers {
		var store *limiter.StoreError
		if errors.As(errs[i], &store) && within.Err() == nil { // it is the own one
			return errs[i]
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		x.opt.Trouble.Note(restoreFailing, p.Name, errs[i])
		p.recalled(errs[i], x.opt.Now())
	}
	if !tick.Wait(ctx, 2*x.opt.Interval-x.opt.Now().Sub(start)) {
		return ctx.Err()
	}
	ended, err := x.opt.Store.EndRestore(ctx, name, refused.keys...)
	if err == nil && ended {
		x.opt.Log.Warn("the Redis of this region was empty; the units that other regions know are counted again",
			"buckets", applied.Load()+int64(found.Applied), "seconds", x.opt.Now().Sub(start).Seconds())
	}
	return cmp.Or(err, refused.err)
}

// recall asks a region for all pages, and applies them. It returns an error, too, if the pages may lack buckets because
// that region does not have all rules of this one.
func (x *Exchange) recall(ctx context.Context, p *peer, applied *atomic.Int64, refused *refusals) error {
	var older error
	for cursor := ""; ; {
		page, err := x.page(ctx, p, cursor, older != nil)
		if page == nil {
			return err
		}
		older = cmp.Or(older, err)
		for _, m := range page.Messages {
			if m.To != x.opt.Self || m.Prefix != x.opt.Prefix || m.From != p.Name && m.From != x.opt.Self {
				return fmt.Errorf("the answer has sums of %q for %q under %q", m.From, m.To, m.Prefix)
			}
			a := Answer{}
			err := x.apply(ctx, m.From, m.Buckets, &a, x.opt.Now(), refused)
			applied.Add(int64(a.Applied))
			for err == nil && a.Unknown > 0 && x.opt.Sets.Load().Version() < m.Set { // its rules will follow
				if !tick.Wait(ctx, x.opt.Interval) {
					return ctx.Err()
				}
				a = Answer{}
				err = x.apply(ctx, m.From, m.Buckets, &a, x.opt.Now(), refused)
				applied.Add(int64(a.Applied))
			}
			if err != nil {
				return err
			}
		}
		if cursor = page.Next; cursor == "" {
			return older
		}
	}
}

// page asks the nodes of a region in turn for a page, until one answers that has the rules of this region, or has older
// ones if that is good enough, or its time is over. A page by older rules comes with an error.
func (x *Exchange) page(ctx context.Context, p *peer, cursor string, older bool) (page *Page, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	for node := uint32(0); ; node++ {
		got, failed := x.pageOf(ctx, p, node, cursor)
		if failed == nil {
			page, failed = got, x.knowsRules(got)
			if failed == nil || older {
				return page, failed
			}
		}
		if err = cmp.Or(err, failed); !tick.Wait(ctx, x.opt.Interval) {
			return page, err
		}
	}
}

// knowsRules returns an error if the node that answered a page has older rules than this one: such a node leaves out
// the buckets of rules that it does not have.
func (x *Exchange) knowsRules(page *Page) error {
	own := x.opt.Sets.Load().Version()
	for _, m := range page.Messages {
		if m.Set < own {
			return fmt.Errorf("its rules are of version %d, those of this region of version %d", m.Set, own)
		}
	}
	return nil
}

// pageOf asks a node for a page.
func (x *Exchange) pageOf(ctx context.Context, p *peer, node uint32, cursor string) (*Page, error) {
	ctx, cancel := context.WithTimeout(ctx, sendWait)
	defer cancel()
	now := x.opt.Now().UnixMilli()
	ask := Ask{Head: region.Head{From: x.opt.Self, To: p.Name, Prefix: x.opt.Prefix, At: now}, Cursor: cursor}
	reply, err := p.Ask(ctx, node, RecallType, EncodeAsk(&ask), MaxPage)
	if err != nil {
		return nil, err
	}
	return DecodePage(reply, now)
}

// Recall answers a region that has lost its data with a page: the sums of this region, and the sums that it has
// received from the asking region, without sums of which no unit counts any more. It returns the same errors as
// Receive.
func (x *Exchange) Recall(ctx context.Context, body []byte) ([]byte, error) {
	select {
	case x.applying <- struct{}{}:
		defer func() { <-x.applying }()
	default:
		return nil, region.ErrBusy
	}
	ask, err := DecodeAsk(body)
	if err != nil {
		x.Refused(err)
		return nil, err
	}
	if refused := ask.Refuse(x.opt.Self, x.opt.Prefix, x.names); refused != nil {
		x.Refused(refused)
		return nil, refused
	}
	set, now := x.opt.Sets.Load(), x.opt.Now()
	if set == nil {
		return nil, region.ErrBusy // until this node has its rules
	}
	own := &Message{Head: region.Head{From: x.opt.Self, To: ask.From, Prefix: x.opt.Prefix, At: now.UnixMilli(),
		Set: set.Version()}}
	theirs := &Message{Head: own.Head}
	theirs.From = ask.From
	page := &Page{Next: ask.Cursor, Messages: []*Message{own, theirs}}
	seen := map[limiter.Key]bool{} // a message contains each bucket once
	windows := 0
	for {
		known, next, err := x.opt.Store.Recall(ctx, ask.From, page.Next)
		if err != nil {
			return nil, err
		}
		for i := range known {
			e := &known[i]
			_, limit, ok := set.Spanning(e.Key, now)
			if !ok || seen[e.Key] {
				continue
			}
			seen[e.Key] = true
			own.Buckets = appendCounting(own.Buckets, e.Key, &e.Sums, limit, now)
			windows += len(e.Sums.Windows)
			for j := range e.Received {
				windows += len(e.Received[j].Sums.Windows)
				theirs.Buckets = appendCounting(theirs.Buckets, e.Key, &e.Received[j].Sums, limit, now)
			}
		}
		page.Next = next
		if next == "" || len(own.Buckets)+len(theirs.Buckets) >= pageBuckets || windows >= pageWindows ||
			x.opt.Now().Sub(now) >= pageWait {
			return EncodePage(page), nil
		}
	}
}

// appendCounting appends sums that still count.
func appendCounting(
	to []Bucket, key limiter.Key, m *limiter.Sums, l limiter.Limit, now time.Time,
) []Bucket {
	if m.Over(l, now.UnixMilli()) {
		return to
	}
	return append(to, Bucket{Key: key, Sums: *m})
}
