//go:build !race

package probe_test

const raceDetector = false
