// Package inbox keeps what webhooks delivered until it has had its effect.
package inbox
