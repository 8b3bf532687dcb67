package jail

// Report is what a machine was seen to enforce.
type Report struct {
	Items []Item `json:"items"`
}

// Item is one part of the boundary. OK says that an attempt against it failed as it should.
type Item struct {
	Name   string `json:"name"` // namespaces, seccomp, environment, user, processes, memory, disk
	OK     bool   `json:"ok"`
	How    string `json:"how"`    // by what it is enforced, such as "control group" or "watched"
	Detail string `json:"detail"` // what was seen
}

// OK says whether every part holds.
func (r Report) OK() bool {
	for _, i := range r.Items {
		if !i.OK {
			return false
		}
	}
	return len(r.Items) > 0
}
