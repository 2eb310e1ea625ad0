package operations

import (
	"database/sql/driver"
	"fmt"
	"time"
)

// Both databases keep times as milliseconds and booleans as 0 or 1; these
// types do the writing and reading. The zero time is 0.
type (
	moment  time.Time
	millis  time.Duration
	boolean bool
)

// Value implements driver.Valuer.
func (m moment) Value() (driver.Value, error) {
	if time.Time(m).IsZero() {
		return int64(0), nil
	}
	return time.Time(m).UnixMilli(), nil
}

// Scan implements sql.Scanner.
func (m *moment) Scan(v any) error {
	n, err := integer(v)
	*m = moment{}
	if n != 0 {
		*m = moment(time.UnixMilli(n).UTC())
	}
	return err
}

// Value implements driver.Valuer. A part of a millisecond counts as a whole
// one, so that no waiting time gets shorter.
func (m millis) Value() (driver.Value, error) {
	return int64((time.Duration(m) + time.Millisecond - 1) / time.Millisecond), nil
}

// Scan implements sql.Scanner.
func (m *millis) Scan(v any) error {
	n, err := integer(v)
	*m = millis(time.Duration(n) * time.Millisecond)
	return err
}

// Value implements driver.Valuer.
func (f boolean) Value() (driver.Value, error) {
	if f {
		return int64(1), nil
	}
	return int64(0), nil
}

// Scan implements sql.Scanner.
func (f *boolean) Scan(v any) error {
	n, err := integer(v)
	*f = n != 0
	return err
}

func integer(v any) (int64, error) {
	n, ok := v.(int64)
	if !ok {
		return 0, fmt.Errorf("column holds %T, not an integer", v)
	}
	return n, nil
}
