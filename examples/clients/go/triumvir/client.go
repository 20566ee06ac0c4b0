// Package triumvir is a client of Triumvir, written from docs/contract/asyncapi.json and docs/protocol.md alone.
//
//	client, err := triumvir.Connect("amqp://shop-a:password@localhost:5672/")
//	err = client.Submit(ctx, "order-fulfilment", json.RawMessage(`{"sku": "84029G"}`), "order-1")
//	statuses := client.Follow("order-1")
//	status, err := statuses.Next(ctx) // io.EOF after the status that ended the order
package triumvir

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// confirmWithin bounds the wait for a confirm; no answer in time means unknown, and the message is sent again.
	confirmWithin = 10 * time.Second
	// sendAgainAfter is the pause after a refusal (the queue is full) or an unknown outcome.
	sendAgainAfter = time.Second
)

// ErrClosed is what every call returns once Close was called.
var ErrClosed = errors.New("triumvir: the client is closed")

// Client sends orders and receives statuses as the RabbitMQ user that the URL names. It reconnects by itself.
// One per process and status queue: the queue has a single active consumer. Safe for concurrent use.
type Client struct {
	name  string
	queue string
	url   string

	mu       sync.Mutex
	session  *session                  // nil while there is no connection
	statuses map[string]map[int]Status // by order, then by sequence: a doubled one is the same entry
	failure  error                     // why nothing works any more, once that is so
	changed  chan struct{}             // closed, and replaced, whenever one of the three above changes
}

// Connect opens the connection; it fails if the broker cannot be reached, or refuses the user or its queue.
func Connect(address string) (*Client, error) {
	parsed, err := url.Parse(address)
	if err != nil || parsed.User.Username() == "" {
		return nil, errors.New("triumvir: the URL must be amqp://client:password@host:port/vhost")
	}
	name := parsed.User.Username()
	client := &Client{
		name:     name,
		queue:    "status." + name,
		url:      address,
		statuses: map[string]map[int]Status{},
		changed:  make(chan struct{}),
	}
	first, err := open(address, client.queue)
	if err != nil {
		return nil, fmt.Errorf("triumvir: %w", err)
	}
	client.session = first
	go client.keep(first)
	return client, nil
}

// Submit sends an order and returns once the broker has it: the order is accepted when its status "received" comes.
// Submitting an equal order again is safe, and answered with its present status.
func (c *Client) Submit(ctx context.Context, workflow string, payload json.RawMessage, orderID string) error {
	body := map[string]any{"order_id": orderID, "workflow": workflow, "payload": payload}
	return c.send(ctx, "order.submit.v1", orderID, "submit", body)
}

// Cancel asks for the order to be stopped, or undone if anything was begun; a status tells which.
func (c *Client) Cancel(ctx context.Context, orderID, reason string) error {
	body := map[string]any{"order_id": orderID, "reason": reason}
	return c.send(ctx, "order.cancel.v1", orderID, "cancel/"+unique(), body)
}

// Query asks for every status from sequence on to be sent again.
func (c *Client) Query(ctx context.Context, orderID string, sequence int) error {
	body := map[string]any{"order_id": orderID, "from_sequence": sequence}
	return c.send(ctx, "order.query.v1", orderID, "query/"+unique(), body)
}

// Close closes the connection and returns when that is done.
func (c *Client) Close() {
	c.mu.Lock()
	last := c.session
	c.mu.Unlock()
	c.fail(ErrClosed)
	if last != nil {
		_ = last.end() // it may have been lost before
	}
}

// send publishes until the broker has confirmed. The message stays the same, its id too, so a copy changes nothing.
func (c *Client) send(ctx context.Context, kind, orderID, purpose string, body map[string]any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("triumvir: the payload is no JSON: %w", err)
	}
	key := c.name + "/" + orderID
	message := amqp.Publishing{
		Type:          kind,
		MessageId:     key + "/" + purpose,
		CorrelationId: key,
		UserId:        c.name,
		ReplyTo:       c.queue,
		ContentType:   "application/json",
		DeliveryMode:  amqp.Persistent,
		Timestamp:     time.Now(),
		Body:          content,
	}
	for {
		session, err := c.connected(ctx)
		if err != nil {
			return err
		}
		confirmed, err := session.publish(ctx, message)
		if confirmed || err != nil {
			return err
		}
		if err := pause(ctx, sendAgainAfter); err != nil {
			return err
		}
	}
}

// connected waits for a connection.
func (c *Client) connected(ctx context.Context) (*session, error) {
	for {
		c.mu.Lock()
		session, failure, changed := c.session, c.failure, c.changed
		c.mu.Unlock()
		if failure != nil {
			return nil, failure
		}
		if session != nil {
			return session, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// keep receives for as long as the client lives, from one connection after another.
func (c *Client) keep(current *session) {
	for current != nil {
		for delivery := range current.deliveries {
			if err := c.receive(delivery); err != nil {
				c.fail(err)
			}
		}
		err := current.end()
		c.update(func() { c.session = nil })
		if isFinal(err) {
			c.fail(fmt.Errorf("triumvir: %w", err))
		}
		current = c.reconnect()
	}
}

// reconnect tries until it succeeds; nil if the client was closed, or the broker refuses it for good.
func (c *Client) reconnect() *session {
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		if c.failed() {
			return nil
		}
		session, err := open(c.url, c.queue)
		if err == nil && c.adopt(session) {
			return session
		}
		if isFinal(err) {
			c.fail(fmt.Errorf("triumvir: %w", err))
			return nil
		}
		time.Sleep(wait)
	}
}

// adopt makes session the current one, unless the client was closed meanwhile.
func (c *Client) adopt(session *session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		_ = session.connection.Close() // nobody will use it
		return false
	}
	c.session = session
	c.announce()
	return true
}

// receive keeps a status and acknowledges it. An acknowledgement that is lost brings the same status once more.
func (c *Client) receive(delivery amqp.Delivery) error {
	var status Status
	if err := json.Unmarshal(delivery.Body, &status); err != nil {
		return fmt.Errorf("triumvir: a status that is no JSON in %s: %w", c.queue, err)
	}
	c.update(func() {
		known := c.statuses[status.OrderID]
		if known == nil {
			known = map[int]Status{}
			c.statuses[status.OrderID] = known
		}
		known[status.Sequence] = status
	})
	_ = delivery.Ack(false)
	return nil
}

func (c *Client) failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure != nil
}

// fail ends the client: every call returns failure from now on.
func (c *Client) fail(failure error) {
	c.update(func() {
		if c.failure == nil {
			c.failure = failure
		}
		if c.session != nil {
			go c.session.end() // not under the lock: the broker is waited for
		}
	})
}

// update changes what c.mu guards, and wakes whoever waits for a change.
func (c *Client) update(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.announce()
}

func (c *Client) announce() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-time.After(length):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func unique() string {
	random := make([]byte, 12)
	if _, err := rand.Read(random); err != nil {
		panic(err) // the system has no random numbers: nothing can be done about it
	}
	return hex.EncodeToString(random)
}

func min(one, other time.Duration) time.Duration {
	if one < other {
		return one
	}
	return other
}
