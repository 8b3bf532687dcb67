package store

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/webhooks"
)

func TestDeliveryIsStoredOnce(t *testing.T) { onBoth(t, testDeliveryIsStoredOnce) }

func testDeliveryIsStoredOnce(t *testing.T, s *Store) {
	d := webhooks.Delivery{ID: "72d3162e-cc78-11e3-81ab-4c9367dc0958", Event: "issues", Action: "labeled", InstallationID: 1, RepositoryID: 42, ReceivedAt: noon, Body: []byte(`{"a":"é"}`)}
	var wg sync.WaitGroup
	fresh := make(chan bool, 20)
	for range 20 {
		wg.Go(func() {
			f, err := s.Put(context.Background(), d)
			if err != nil {
				t.Error(err)
			}
			fresh <- f
		})
	}
	wg.Wait()
	close(fresh)
	n := 0
	for f := range fresh {
		if f {
			n++
		}
	}
	if diff := cmp.Diff(1, n); diff != "" {
		t.Errorf("fresh deliveries (-want +got):\n%s", diff)
	}
	got, err := s.ClaimDeliveries(t.Context(), noon, 10, noon.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Delivery{{Delivery: d}}, got); diff != "" {
		t.Errorf("due (-want +got):\n%s", diff)
	}
	if again, err := s.ClaimDeliveries(t.Context(), noon, 10, noon.Add(time.Minute)); len(again) != 0 || err != nil {
		t.Errorf("claimed twice: %v, %v", again, err)
	}
	if known, err := s.Known(t.Context(), []string{d.ID, "another"}); err != nil || !known[d.ID] || known["another"] {
		t.Errorf("known %v, %v", known, err)
	}
}

func TestStoredBodiesOutliveTheirBuffers(t *testing.T) {
	onBoth(t, testStoredBodiesOutliveTheirBuffers)
}

// The handler reads the next body into the buffer of one that is stored, and so does the store with what it packs them into.
func testStoredBodiesOutliveTheirBuffers(t *testing.T, s *Store) {
	const senders, each = 8, 12
	body := func(id string) []byte {
		return bytes.Repeat([]byte(`{"delivery":"`+id+`"}`), 1+len(id)*len(id)*int(id[0]-'0')*3)
	}
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			var buffer []byte
			for i := range each {
				id := fmt.Sprintf("%d-%d", sender, i)
				buffer = append(buffer[:0], body(id)...)
				if _, err := s.Put(context.Background(), webhooks.Delivery{ID: id, ReceivedAt: noon, Body: buffer}); err != nil {
					t.Error(err)
				}
				clear(buffer)
			}
		})
	}
	wg.Wait()
	got, err := s.ClaimDeliveries(t.Context(), noon, 2*senders*each, noon.Add(time.Minute))
	if err != nil || len(got) != senders*each {
		t.Fatalf("%d deliveries, %v", len(got), err)
	}
	for _, d := range got {
		if !bytes.Equal(d.Body, body(d.ID)) {
			t.Errorf("delivery %s has another body, of %d bytes", d.ID, len(d.Body))
		}
	}
}

func TestDeliveryLife(t *testing.T) { onBoth(t, testDeliveryLife) }

func testDeliveryLife(t *testing.T, s *Store) {
	for i, id := range []string{"a", "b"} {
		if _, err := s.Put(t.Context(), webhooks.Delivery{ID: id, ReceivedAt: noon.Add(time.Duration(i) * time.Second), Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	later := noon.Add(time.Minute)
	if err := s.Postpone(t.Context(), "a", later); err != nil {
		t.Fatal(err)
	}
	ids := func(now time.Time) (ids []string) {
		due, err := s.ClaimDeliveries(t.Context(), now, 10, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range due {
			ids = append(ids, d.ID)
		}
		return ids
	}
	if diff := cmp.Diff([]string{"b"}, ids(noon.Add(2*time.Second))); diff != "" {
		t.Errorf("due before (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b"}, ids(later)); diff != "" {
		t.Errorf("due later (-want +got):\n%s", diff)
	}
	if err := s.Handled(t.Context(), "b", "mission m-1 begun", later); err != nil {
		t.Fatal(err)
	}
	next, err := s.NextDelivery(t.Context())
	if err != nil || !next.Equal(later) {
		t.Errorf("next due %v, %v; want %v", next, err, later)
	}
	if n, err := s.Forget(t.Context(), later.Add(time.Hour)); n != 1 || err != nil {
		t.Errorf("forgot %d, %v; want only the handled one", n, err)
	}
}

// TestPutDoesNotWaitForEver: a database that takes a statement and never answers costs one commit, and not all that come behind it.
func TestPutDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.intake.patience = 20 * time.Millisecond
	only, err := s.Pool().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := webhooks.Delivery{ID: "a", Event: "issues", ReceivedAt: noon, Body: []byte("{}")}
	if fresh, err := s.Put(t.Context(), d); err == nil || fresh {
		t.Errorf("fresh %v without a connection", fresh)
	}
	only.Close()
	s.intake.patience = time.Minute
	if fresh, err := s.Put(t.Context(), d); err != nil || !fresh {
		t.Errorf("afterwards: fresh %v, %v", fresh, err)
	}
}
