package kit

import "testing"

func TestProgressIsReadBack(t *testing.T) {
	t.Parallel()
	if done, total, ok := ParseProgress(progressPrefix + "3 of 55"); done != 3 || total != 55 || !ok {
		t.Errorf("read %d of %d, %t", done, total, ok)
	}
	for _, line := range []string{"", "PASS", "3 of 55", progressPrefix, progressPrefix + "x of 55", progressPrefix + "3"} {
		if _, _, ok := ParseProgress(line); ok {
			t.Errorf("%q is progress", line)
		}
	}
}
