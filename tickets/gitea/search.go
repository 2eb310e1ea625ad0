package gitea

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/tickets"
)

// A call looks at no more repositories than this; the rest is behind the cursor.
const reposPerCall = 10

// Search lists one repository after the other: the global search drops filters
// that match nothing. The position names the repository, so that a grant that
// changed in between can't shift it.
func (Driver) Search(ctx context.Context, a *connector.Access, q tickets.Query, p connector.Position) (connector.Page[tickets.Ticket], error) {
	var page connector.Page[tickets.Ticket]
	repos := slices.Sorted(slices.Values(q.Projects))
	at, ok := parsePosition(p.Cursor)
	if !ok {
		return page, connector.Fail(connector.CodeCursorInvalid, "")
	}
	if at.repo == "" {
		at = first(repos[0])
	}
	for range reposPerCall {
		i := slices.Index(repos, at.repo)
		if i < 0 {
			return page, connector.Fail(connector.CodeCursorInvalid, "")
		}
		items, total, err := listPage(ctx, a, at.repo, url.Values{
			"q": {q.Text}, "state": {q.State}, "type": {"issues"},
			"page": {strconv.Itoa(at.page)}, "limit": {strconv.Itoa(p.PageSize)},
		})
		if connector.CodeOf(err) == connector.CodeNotFound && len(repos) > 1 {
			// One repository that was deleted or hidden since the connection was
			// made must not take the others along.
			page.Missing = append(page.Missing, connector.Missing{What: "items", Reason: "outside_grant"})
			items, total, at.total, err = nil, 0, 0, nil
		}
		if err != nil {
			return page, err
		}
		if at.page > 1 && total != at.total {
			page.Missing = append(page.Missing, connector.Missing{What: "items", Reason: "changed_while_paging"})
		}
		if at.repeats(items) && total == at.total {
			// Counting on would call a list complete of which one page was seen.
			page.Missing = append(page.Missing, connector.Missing{What: "items", Reason: "cursor_stuck"})
			return page, nil
		}
		page.Fetched += len(items)
		for _, w := range items {
			if w.PullRequest == nil {
				page.Items = append(page.Items, w.ticket(at.repo))
			}
		}
		// What was seen is counted, not computed: a page may be smaller than asked for.
		switch seen := at.seen + len(items); {
		case len(items) > 0 && seen < total:
			at = at.next(items, total)
		case i+1 < len(repos):
			at = first(repos[i+1])
		default:
			if len(repos) == 1 && at.page == 1 {
				page.Total = &total
			}
			return page, nil
		}
		if len(page.Items) > 0 {
			break
		}
	}
	page.Next = at.String()
	return page, nil
}

func listPage(ctx context.Context, a *connector.Access, repo string, query url.Values) ([]wireIssue, int, error) {
	items, resp, err := connector.Get[[]wireIssue](ctx, a, connector.Request{Path: issues(repo), Query: query})
	if err == nil && items == nil {
		err = connector.Fail(connector.CodeProviderContract, "the list is null")
	}
	if err != nil {
		return nil, 0, err
	}
	total, err := strconv.Atoi(resp.Header.Get("X-Total-Count"))
	if err != nil || total < 0 {
		return nil, 0, connector.Fail(connector.CodeProviderContract, "the list does not say how many items there are")
	}
	return items, total, nil
}

// position is "page total seen before repository".
type position struct {
	repo   string
	page   int
	total  int    // of the repository on the page before
	seen   int    // items on all its pages before
	before string // digest of the page before; "-" on the first
}

func (p position) String() string {
	return strings.Join([]string{strconv.Itoa(p.page), strconv.Itoa(p.total), strconv.Itoa(p.seen), p.before, p.repo}, " ")
}

// first is where a repository begins.
func first(repo string) position { return position{repo: repo, page: 1, before: "-"} }

func (p position) next(items []wireIssue, total int) position {
	return position{p.repo, p.page + 1, total, p.seen + len(items), pageDigest(items)}
}

// repeats says whether the page at p is the one before it again. Pages have
// numbers, so a server that takes no notice of them is never seen to be at the
// same position.
func (p position) repeats(items []wireIssue) bool {
	return len(items) > 0 && p.before == pageDigest(items)
}

func pageDigest(items []wireIssue) string {
	h := sha256.New()
	for _, w := range items {
		_ = binary.Write(h, binary.BigEndian, w.Number)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func parsePosition(s string) (position, bool) {
	if s == "" {
		return position{}, true
	}
	parts := strings.SplitN(s, " ", 5)
	if len(parts) != 5 {
		return position{}, false
	}
	page, err1 := strconv.Atoi(parts[0])
	total, err2 := strconv.Atoi(parts[1])
	seen, err3 := strconv.Atoi(parts[2])
	p := position{parts[4], page, total, seen, parts[3]}
	if err1 != nil || err2 != nil || err3 != nil || page < 1 || total < 0 || seen < 0 || p.repo == "" {
		return position{}, false
	}
	return p, true
}
