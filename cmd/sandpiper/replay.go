package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

const replayHelp = `Say what the bot makes of a webhook payload, or deliver it.

FILE holds the body of a delivery as GitHub shows it under the App's "Recent deliveries"; - is standard input.
Without --send nothing is delivered: the commands that the payload decodes to are printed, or why it is ignored.
With --send it is signed with the first of SANDPIPER_WEBHOOK_SECRETS and posted to the bot, under a new delivery id
unless --id gives one (the bot takes a delivery with an id that it has seen for done).

  sandpiper replay --event issues labelled.json
  sandpiper replay --event issue_comment --send comment.json

Exit status: 0 it asks something of the bot, 3 it is ignored, 1 it cannot be decoded or delivered.`

type replayOptions struct {
	event, id, url string
	send           bool
}

func newReplayCommand() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Say what a webhook payload means, or deliver it again",
		Long:  replayHelp,
		Args:  exactArgs(1, "the file with the payload"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.event == "" {
				return usageError(errors.New("--event is needed: the X-GitHub-Event of the delivery, such as issues"))
			}
			body, err := readFileOrStdin(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			if o.send {
				return o.deliver(cmd.Context(), cmd.OutOrStdout(), body)
			}
			return o.explain(cmd.OutOrStdout(), body)
		},
	}
	cmd.Flags().StringVar(&o.event, "event", "", "X-GitHub-Event of the delivery")
	cmd.Flags().StringVar(&o.id, "id", "", "X-GitHub-Delivery, with --send (default: a new one)")
	cmd.Flags().StringVar(&o.url, "url", "", "address of the bot's webhook, with --send (default: SANDPIPER_LISTEN)")
	cmd.Flags().BoolVar(&o.send, "send", false, "deliver it to the bot")
	return cmd
}

func readFileOrStdin(in io.Reader, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(in, webhooks.MaxBody+1))
	}
	return os.ReadFile(name)
}

func (o replayOptions) explain(w io.Writer, body []byte) error {
	commands, err := webhooks.Decode(webhooks.Delivery{ID: o.id, Event: o.event, Body: body}, webhooks.Self{})
	if err != nil {
		return err
	}
	ignored := true
	for _, c := range commands {
		if i, ok := c.(webhooks.Ignored); ok {
			fmt.Fprintf(w, "ignored: %s\n", i.Reason)
			continue
		}
		ignored = false
		text, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s %s\n", strings.TrimPrefix(fmt.Sprintf("%T", c), "webhooks."), text)
	}
	if ignored {
		return exitError{code: 3}
	}
	return nil
}

func (o replayOptions) deliver(ctx context.Context, w io.Writer, body []byte) error {
	c, err := loadConfig()
	if err != nil {
		return err
	}
	if len(c.WebhookSecrets) == 0 {
		return usageError(errors.New("SANDPIPER_WEBHOOK_SECRETS is not set, so nothing can be signed"))
	}
	request, err := o.request(ctx, c, body)
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 30 * time.Second}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s %s\n", answer.Status, bytes.TrimSpace(text))
	if answer.StatusCode != http.StatusAccepted {
		return exitError{code: 1}
	}
	return nil
}

func (o replayOptions) request(ctx context.Context, c *config.Config, body []byte) (*http.Request, error) {
	url := o.url
	if url == "" {
		url = "http://" + c.Listen + "/webhook"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, usageError(err)
	}
	id := o.id
	if id == "" {
		id = newGUID()
	}
	mac := hmac.New(sha256.New, []byte(c.WebhookSecrets[0].Reveal()))
	mac.Write(body)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-GitHub-Event", o.event)
	request.Header.Set("X-GitHub-Delivery", id)
	request.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	return request, nil
}

// newGUID is a random UUID (RFC 9562, version 4).
func newGUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
