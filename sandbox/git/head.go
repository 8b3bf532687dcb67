package git

// Head is a Stdout for a command whose output may be of any length: it keeps the beginning and takes the rest for nothing, so that git
// runs to its end.
type Head struct {
	Most int // bytes that are kept
	Text []byte
	Size int64 // of all
}

// Cut says whether anything is missing.
func (h *Head) Cut() bool { return h.Size > int64(len(h.Text)) }

func (h *Head) Write(p []byte) (int, error) {
	h.Size += int64(len(p))
	h.Text = append(h.Text, p[:min(len(p), h.Most-len(h.Text))]...)
	return len(p), nil
}
