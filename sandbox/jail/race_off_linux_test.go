//go:build !race

package jail_test

const raceDetector = false
