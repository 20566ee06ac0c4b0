package triumvir

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// session is one connection, for as long as it lasts.
type session struct {
	connection *amqp.Connection
	channel    *amqp.Channel
	deliveries <-chan amqp.Delivery
	returns    chan amqp.Return
	closed     chan *amqp.Error

	turn   sync.Mutex // one publish at a time, so that a return belongs to it
	ending sync.Once
	reason error // why it ended
}

func open(address, queue string) (*session, error) {
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName("triumvir-client-example " + queue)
	config := amqp.Config{Heartbeat: 10 * time.Second, Properties: properties}
	connection, err := amqp.DialConfig(address, config)
	if err != nil {
		return nil, err
	}
	session, err := consume(connection, queue)
	if err != nil {
		_ = connection.Close() // the error that matters is the one before
		return nil, fmt.Errorf("%s: %w", queue, err)
	}
	return session, nil
}

func consume(connection *amqp.Connection, queue string) (*session, error) {
	channel, err := connection.Channel()
	if err != nil {
		return nil, err
	}
	s := &session{connection: connection, channel: channel}
	s.returns = channel.NotifyReturn(make(chan amqp.Return, 1))
	s.closed = channel.NotifyClose(make(chan *amqp.Error, 1))
	if err := channel.Confirm(false); err != nil {
		return nil, err
	}
	if err := channel.Qos(100, 0, false); err != nil {
		return nil, err
	}
	s.deliveries, err = channel.Consume(queue, "", false, false, false, false, nil)
	return s, err
}

// publish sends one order message. False without an error means that the broker refused it (the queue is full), or
// that nobody knows whether it arrived: in both cases the same message is to be sent again.
func (s *session) publish(ctx context.Context, message amqp.Publishing) (bool, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	confirm, err := s.channel.PublishWithDeferredConfirmWithContext(ctx, "orders", "", true, false, message)
	if err != nil {
		return false, ctx.Err() // the connection is gone
	}
	waiting, cancel := context.WithTimeout(ctx, confirmWithin)
	defer cancel()
	confirmed, err := confirm.WaitContext(waiting)
	if err != nil {
		go s.end() // its answer may still come, and must not be taken for that of the next message
		return false, ctx.Err()
	}
	select {
	case returned, isOne := <-s.returns:
		if isOne { // and not the end of the channel
			return false, fmt.Errorf("triumvir: the exchange orders leads to no queue (%s)", returned.ReplyText)
		}
	default:
	}
	return confirmed, nil
}

// end closes the connection and tells why it ended: nil if nobody but us ended it.
func (s *session) end() error {
	s.ending.Do(func() {
		_ = s.connection.Close() // it may be closed already
		if reason := <-s.closed; reason != nil {
			s.reason = reason
		}
	})
	return s.reason
}

// isFinal tells errors that another try cannot mend (no right, no such queue) from a broker that is away.
func isFinal(err error) bool {
	var refused *amqp.Error
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Code {
	case amqp.AccessRefused, amqp.NotFound, amqp.PreconditionFailed:
		return true
	}
	return false
}
