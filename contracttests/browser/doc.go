// Package browser holds tests in which people use the pages with a real browser:
// Chromium, a fresh profile, no script of ours. Its tests skip without Chromium
// unless CI_REQUIRE_CHROMIUM is 1. Pictures go to the folder that
// DRAWBRIDGE_SCREENSHOTS names.
package browser
