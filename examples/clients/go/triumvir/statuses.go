package triumvir

import (
	"context"
	"encoding/json"
	"io"
	"time"
)

// gapStays is how long a missing status is waited for before it is asked for: it may only be late.
const gapStays = 2 * time.Second

// Status is what status.v1 holds. Sequence rises by one per order; 0 belongs to an answer to what was no order.
type Status struct {
	OrderID    string          `json:"order_id"`
	Status     string          `json:"status"`
	Sequence   int             `json:"sequence"`
	At         time.Time       `json:"at"`
	Workflow   *string         `json:"workflow"`
	Step       *string         `json:"step"`
	Detail     *string         `json:"detail"`
	Result     json.RawMessage `json:"result"`
	Submission *string         `json:"submission"`
}

// Ends tells whether nothing is expected after this status. ("failed" and "compensation_failed" rest until an
// operator decides; more statuses follow then.)
func (s Status) Ends() bool {
	switch s.Status {
	case "completed", "compensated", "cancelled", "closed", "rejected", "unknown_order":
		return true
	}
	return false
}

// Statuses is one order as its client sees it. Not for concurrent use.
type Statuses struct {
	client   *Client
	orderID  string
	next     int
	ended    bool
	askAfter time.Time // when a gap is asked about; zero while there is none
}

// Follow starts with the order's first status, also if that came before.
func (c *Client) Follow(orderID string) *Statuses {
	return &Statuses{client: c, orderID: orderID, next: 1}
}

// Next waits for the next status: each once and in order. io.EOF after the one that ended the order.
func (s *Statuses) Next(ctx context.Context) (Status, error) {
	for !s.ended {
		status, found, gap, changed := s.look()
		if found {
			return status, nil
		}
		if err := s.client.failureNow(); err != nil {
			return Status{}, err
		}
		if err := s.wait(ctx, gap, changed); err != nil {
			return Status{}, err
		}
	}
	return Status{}, io.EOF
}

// look takes the next status if it is there; else whether a later one is, and what tells of a change.
func (s *Statuses) look() (status Status, found, gap bool, changed <-chan struct{}) {
	s.client.mu.Lock()
	defer s.client.mu.Unlock()
	known := s.client.statuses[s.orderID]
	status, found = known[s.next]
	if !found && len(known) == 1 {
		status, found = known[0] // refused: it never was an order
	}
	if found {
		s.next++
		s.ended = status.Ends()
		s.askAfter = time.Time{}
		return status, true, false, nil
	}
	for sequence := range known {
		gap = gap || sequence > s.next
	}
	return Status{}, false, gap, s.client.changed
}

// wait returns at the next change, having asked for what is missing if it was missing for long enough.
func (s *Statuses) wait(ctx context.Context, gap bool, changed <-chan struct{}) error {
	var due <-chan time.Time
	if gap {
		if s.askAfter.IsZero() {
			s.askAfter = time.Now().Add(gapStays)
		}
		timer := time.NewTimer(time.Until(s.askAfter))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-changed:
		return nil
	case <-due:
		s.askAfter = time.Time{}
		return s.client.Query(ctx, s.orderID, s.next)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) failureNow() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}
