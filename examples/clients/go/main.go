// go run . URL WORKFLOW ORDER_ID [PAYLOAD] [--cancel]: submits one order and prints its statuses, a JSON line each.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"triumvir-client-example/triumvir"
)

const usage = "usage: go run . URL WORKFLOW ORDER_ID [PAYLOAD] [--cancel]"

func main() {
	var given []string
	cancel := false
	for _, argument := range os.Args[1:] {
		if argument == "--cancel" {
			cancel = true
		} else {
			given = append(given, argument)
		}
	}
	if len(given) < 3 || len(given) > 4 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	payload := "{}"
	if len(given) == 4 {
		payload = given[3]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, given[0], given[1], given[2], json.RawMessage(payload), cancel); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url, workflow, orderID string, payload json.RawMessage, cancel bool) error {
	client, err := triumvir.Connect(url)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Submit(ctx, workflow, payload, orderID); err != nil {
		return err
	}
	if cancel {
		if err := client.Cancel(ctx, orderID, "changed my mind"); err != nil {
			return err
		}
	}
	statuses := client.Follow(orderID)
	for {
		status, err := statuses.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(status); err != nil {
			return err
		}
	}
}
