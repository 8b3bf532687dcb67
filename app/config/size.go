package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes. People write it with a binary unit, such as 4GiB or 512 MiB, or as plain bytes.
type Size int64

var units = []struct {
	suffix string
	bytes  int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

// UnmarshalText reads what String writes. Decimal units (GB) are refused: they are read in two ways.
func (s *Size) UnmarshalText(text []byte) error {
	for _, unit := range units {
		number, ok := strings.CutSuffix(string(text), unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/unit.bytes {
			break
		}
		*s = Size(n * unit.bytes)
		return nil
	}
	return fmt.Errorf("%q is not a size such as 4GiB", text)
}

func (s Size) String() string {
	for _, unit := range units {
		if int64(s) >= unit.bytes && int64(s)%unit.bytes == 0 {
			return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.suffix
		}
	}
	return "0B"
}
