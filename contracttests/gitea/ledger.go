package gitea

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// An Issue is a ticket as the provider stores it.
type Issue struct {
	ID, Number int64
	Title      string
	Body       string
	State      string // open or closed
	Author     string // login
	Labels     []string
	Assignees  []string // logins
	URL        string   // page for people
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// A NewIssue is what CreateIssue sends. Labels are ids.
type NewIssue struct {
	Title     string   `json:"title"`
	Body      string   `json:"body,omitempty"`
	Labels    []int64  `json:"labels,omitempty"`
	Assignees []string `json:"assignees,omitempty"`
}

// CreateIssue makes an issue in a repository (owner/name) as a user. Labels and assignees
// that the user may not set are dropped by Gitea without a word; the answer shows it.
func (s *Server) CreateIssue(ctx context.Context, as, repo string, issue NewIssue) (Issue, error) {
	var made wireIssue
	err := s.API(ctx, as, http.MethodPost, "/repos/"+repo+"/issues", issue, &made)
	return made.issue(), err
}

// ListIssues reads the provider's own ledger of a repository (owner/name): open and
// closed, every page, no pull requests, newest first, as the administrator. It fails
// rather than return less than the provider says there is.
func (s *Server) ListIssues(ctx context.Context, repo string) ([]Issue, error) {
	var all []Issue
	for page := 1; ; page++ {
		var items []wireIssue
		header, err := s.call(ctx, s.admin.login, http.MethodGet,
			fmt.Sprintf("/repos/%s/issues?state=all&type=issues&limit=50&page=%d", repo, page), nil, &items)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			all = append(all, item.issue())
		}
		total, err := strconv.Atoi(header.Get("X-Total-Count"))
		if err != nil {
			return nil, fmt.Errorf("gitea: list of %s has no total", repo)
		}
		if len(all) == total {
			return all, nil
		}
		if len(items) == 0 || len(all) > total {
			return nil, fmt.Errorf("gitea: list of %s gave %d of %d issues", repo, len(all), total)
		}
	}
}

type wireIssue struct {
	ID        int64                   `json:"id"`
	Number    int64                   `json:"number"`
	Title     string                  `json:"title"`
	Body      string                  `json:"body"`
	State     string                  `json:"state"`
	HTMLURL   string                  `json:"html_url"`
	User      wireUser                `json:"user"`
	Labels    []struct{ Name string } `json:"labels"`
	Assignees []wireUser              `json:"assignees"`
	CreatedAt time.Time               `json:"created_at"`
	UpdatedAt time.Time               `json:"updated_at"`
}

type wireUser struct{ Login string }

func (w wireIssue) issue() Issue {
	i := Issue{
		ID: w.ID, Number: w.Number, Title: w.Title, Body: w.Body, State: w.State,
		Author: w.User.Login, URL: w.HTMLURL, CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt,
	}
	for _, l := range w.Labels {
		i.Labels = append(i.Labels, l.Name)
	}
	for _, a := range w.Assignees {
		i.Assignees = append(i.Assignees, a.Login)
	}
	return i
}
