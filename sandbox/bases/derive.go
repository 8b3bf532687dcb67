package bases

import "context"

func (b *Bases) derive(ctx context.Context, key, dir string, base *Base) (bool, error) {
	return false, nil
}
