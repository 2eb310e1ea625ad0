package toolshape

import (
	"errors"

	"github.com/drawbridge-dev/drawbridge/connector"
)

type chatResult struct {
	Role       string `json:"role"`
	ToolCallID string `json:"tool_call_id"`
	Content    string `json:"content"`
}

type responsesResult struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output string `json:"output"`
}

type messagesResult struct {
	Type      string `json:"type"`
	ToolUseID string `json:"tool_use_id"`
	Content   string `json:"content"`
	IsError   bool   `json:"is_error"`
}

// Results returns a JSON array with one answer for each result, in the order
// given; vendors match them by call id. For [OpenAI] these are messages to
// append, for [OpenAIResponses] items of the next input, for [Anthropic] the
// content of one user message.
//
// The content is the JSON text of the whole result, so that a model sees the
// error code, the coverage and the receipt, not only data. Anthropic's is_error
// is set for errors and for unknown outcomes. A result without a call id is an
// error, and so is one whose data isn't JSON.
func (s Shape) Results(results []connector.Result) ([]byte, error) {
	if !s.known() {
		return nil, errNoShape
	}
	answers := make([]any, 0, len(results))
	for i, r := range results {
		text, err := resultText(r)
		if err != nil {
			return nil, s.fail("result %d: %w", i, err)
		}
		switch s {
		case OpenAI:
			answers = append(answers, chatResult{"tool", r.CallID, text})
		case OpenAIResponses:
			answers = append(answers, responsesResult{"function_call_output", r.CallID, text})
		default:
			failed := r.Status == connector.StatusError || r.Status == connector.StatusUnknown
			answers = append(answers, messagesResult{"tool_result", r.CallID, text, failed})
		}
	}
	return encode(answers)
}

func resultText(r connector.Result) (string, error) {
	if r.CallID == "" {
		return "", errors.New("it has no call id, and a vendor matches by nothing else")
	}
	text, err := encode(r)
	return string(text), err
}
