package webhooks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// MaxBody is the largest body in bytes that is read. GitHub sends no payload above 25 MB
// (https://docs.github.com/en/webhooks/webhook-events-and-payloads#payload-cap).
const MaxBody = 25 << 20

// Delivery is one verified delivery, as it is stored.
type Delivery struct {
	ID             string // GUID in lower case; a redelivery has the ID of the first attempt. See digest for others
	Event          string // value of X-GitHub-Event
	Action         string // "" for events without one
	InstallationID int64  // 0 for a ping of the App's own hook
	RepositoryID   int64  // 0 for events of an installation
	ReceivedAt     time.Time
	Body           []byte // the bytes that were signed; they are the handler's again when Put has returned
}

// Log keeps deliveries. Put stores d under its ID and returns once it is durable. It reports false, and changes nothing,
// when the ID is already there. That decision must be one atomic step, because the same delivery can arrive several
// times within milliseconds (smithy-ai/smithy-ai#47). Put is called from many goroutines, and keeps nothing of d.Body, which
// the next delivery is read into.
type Log interface {
	Put(ctx context.Context, d Delivery) (fresh bool, err error)
}

// Options of Handler. All but Wake, Self and Observe are required.
type Options struct {
	Secrets []redact.Secret  // each is tried; none may be empty
	Log     Log              //
	Clock   func() time.Time //
	Wake    func()           // called after a fresh delivery was stored; must return at once
	Logger  *slog.Logger     //
	Self    Self             // who we are, to ignore our own comments
	// Observe is told of each answer: the event, and accepted, duplicate, ignored or refused; nil: nobody. The event of one
	// that was refused is whatever somebody sent.
	Observe func(event, outcome string)
}

type handler struct {
	Options
	verifier verifier
	seats    chan struct{} // one for each body that is in memory
}

// What bounds the memory that a flood can take, at 128 KiB for most bodies: others wait, unread, until one is stored. A sender that
// holds its seat without a word loses it when GitHub itself would have given up
// (https://docs.github.com/en/webhooks/using-webhooks/handling-webhook-deliveries: 10 seconds).
const (
	mostAtOnce = 512
	bodyTime   = 10 * time.Second
)

// Handler returns the endpoint that GitHub delivers to. It answers
//
//	202 verified, and durable, a duplicate, or of no interest (the JSON body says which)
//	400 headers or JSON are malformed     401 signature missing or wrong     405 not a POST
//	413 body over MaxBody                 415 not application/json           500 the delivery could not be stored
//
// A refusal leaves no trace but a line in the log, which never holds the body. Deliveries that decode to nothing but
// Ignored are acknowledged and not stored: most of what GitHub sends (every check run of every other App, for one) is of
// that kind, nothing ever reads it again, and GitHub itself keeps it for some days.
func Handler(o Options) (http.Handler, error) {
	v, err := newVerifier(o.Secrets)
	if err != nil {
		return nil, err
	}
	if o.Log == nil || o.Clock == nil || o.Logger == nil {
		return nil, errors.New("webhook handler: log, clock and logger are required")
	}
	if o.Wake == nil {
		o.Wake = func() {}
	}
	if o.Observe == nil {
		o.Observe = func(string, string) {}
	}
	return &handler{Options: o, verifier: v, seats: make(chan struct{}, mostAtOnce)}, nil
}

// refusal is an answer other than 202. Its class is what the log and the answer say.
type refusal struct {
	status int
	class  string
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := Delivery{
		ID:         strings.ToLower(r.Header.Get("X-GitHub-Delivery")),
		Event:      r.Header.Get("X-GitHub-Event"),
		ReceivedAt: h.Clock(),
	}
	sent := r.Body
	status, refused := h.take(w, r, &d)
	if refused != nil {
		if refused.status == http.StatusRequestEntityTooLarge && r.Header.Get("Expect") == "" {
			// Who still sends when the connection is closed sees it reset, and not the answer (RFC 9112, 9.6).
			_, _ = io.CopyN(io.Discard, sent, 2*MaxBody)
		}
		h.Observe(d.Event, "refused")
		h.Logger.Warn("webhook refused", "class", refused.class, "status", refused.status, "event", d.Event, "delivery", d.ID)
		if refused.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", http.MethodPost)
		}
		reply(w, refused.status, map[string]string{"status": "refused", "reason": refused.class})
		return
	}
	h.Observe(d.Event, status)
	reply(w, http.StatusAccepted, map[string]string{"status": status, "delivery": d.ID})
	if status == "accepted" {
		h.Wake()
	}
}

// take verifies and stores one delivery. status is accepted, duplicate or ignored.
func (h *handler) take(w http.ResponseWriter, r *http.Request, d *Delivery) (status string, _ *refusal) {
	if refused := checkHead(r, *d); refused != nil {
		return "", refused
	}
	h.seats <- struct{}{} // soon: who has one loses it after bodyTime, and the log takes what it is given within seconds
	defer func() { <-h.seats }()
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // a connection has one
	room := rooms.Get().(*bytes.Buffer)
	defer leave(room)
	body, refused := readBody(w, r, room)
	if refused != nil {
		return "", refused
	}
	secret, ok := h.verifier.verify(r.Header.Get("X-Hub-Signature-256"), body)
	if !ok {
		return "", &refusal{http.StatusUnauthorized, "bad signature"}
	}
	d.Body = body
	if !guid.MatchString(d.ID) {
		d.ID += "-" + digest(*d)
	}
	commands, err := Decode(*d, h.Self)
	if err != nil {
		h.Logger.Warn("webhook not understood", "error", err, "event", d.Event, "delivery", d.ID)
		return "", &refusal{http.StatusBadRequest, classOf(err)}
	}
	origin := commands[0].Origin()
	d.Action, d.InstallationID, d.RepositoryID = origin.Action, origin.InstallationID, origin.Repo.ID
	log := h.Logger.With("event", d.Event, "action", d.Action, "delivery", d.ID, "secret", secret)

	if reason, all := allIgnored(commands); all {
		log.Info("webhook ignored: "+reason, "repository", origin.Repo.FullName)
		return "ignored", nil
	}
	// A sender that hangs up now has sent everything. GitHub will count a failure, and never send it again by itself.
	fresh, err := h.Log.Put(context.WithoutCancel(r.Context()), *d)
	if err != nil {
		log.Error("webhook not stored", "error", err)
		return "", &refusal{http.StatusInternalServerError, "not stored"}
	}
	if !fresh {
		log.Info("webhook came again")
		return "duplicate", nil
	}
	log.Info("webhook stored", "repository", origin.Repo.FullName, "bytes", len(body))
	return "accepted", nil
}

var (
	guid      = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	plainID   = regexp.MustCompile(`^[0-9a-z][0-9a-z_-]{0,99}$`)
	eventName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
)

// checkHead judges what can be judged before a byte of the body is read.
func checkHead(r *http.Request, d Delivery) *refusal {
	if r.Method != http.MethodPost {
		return &refusal{http.StatusMethodNotAllowed, "not a POST"}
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		// The hook can also be set to send forms; a verified form would have to be unpacked before it is JSON.
		return &refusal{http.StatusUnsupportedMediaType, "content type is not application/json"}
	}
	if !eventName.MatchString(d.Event) {
		return &refusal{http.StatusBadRequest, "malformed X-GitHub-Event"}
	}
	if !plainID.MatchString(d.ID) {
		return &refusal{http.StatusBadRequest, "malformed X-GitHub-Delivery"}
	}
	if r.ContentLength > MaxBody {
		return &refusal{http.StatusRequestEntityTooLarge, "body too large"}
	}
	return nil
}

// digest tells apart deliveries whose ids are no GUIDs. GitHub's always are; servers that stand in for it number theirs by the
// clock, and give two events of one millisecond the same id (vercel-labs/emulate 0.12.2).
func digest(d Delivery) string {
	sum := sha256.Sum256(append([]byte(d.Event+"\n"), d.Body...))
	return hex.EncodeToString(sum[:8])
}

// rooms are what bodies are read into. One for each delivery would be most of what the intake leaves to the garbage collector,
// and collecting it a third of the intake's time.
var rooms = sync.Pool{New: func() any { return bytes.NewBuffer(make([]byte, 0, roomFor)) }}

// leave has a room used again, unless a rare large body has made it large.
func leave(room *bytes.Buffer) {
	if room.Cap() <= 2*roomFor {
		room.Reset()
		rooms.Put(room)
	}
}

// roomFor is above what most bodies have. No more is taken before it has come, whatever the sender says of its length.
const roomFor = 64 << 10

// readBody reads a body into room; it holds only as long as that is the caller's.
func readBody(w http.ResponseWriter, r *http.Request, room *bytes.Buffer) ([]byte, *refusal) {
	_, err := room.ReadFrom(http.MaxBytesReader(w, r.Body, MaxBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, &refusal{http.StatusRequestEntityTooLarge, "body too large"}
	}
	if err != nil { // the sender went away or was too slow: hardly anybody is there to read this
		return nil, &refusal{http.StatusBadRequest, "body not read"}
	}
	return room.Bytes(), nil
}

func reply(w http.ResponseWriter, status int, v map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the sender has gone; the delivery is kept, and comes as a duplicate
}
