package mcp

//lint:file-ignore SA1019 the suite asks for what the protocol has deprecated

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-dev/drawbridge/mcpexpose"
)

// The suite wants features of these names. What they answer is checked by shape; the
// rules about state and capabilities are mcpexpose's own, through its Asker.

var (
	pixel, _   = base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
	silence, _ = base64.StdEncoding.DecodeString("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
	anything   = json.RawMessage(`{"type":"object"}`)
)

func fixtures() *mcpexpose.Native {
	return &mcpexpose.Native{
		Options: func(o *sdk.ServerOptions) {
			o.Capabilities.Resources.Subscribe = true
			o.SubscribeHandler = func(context.Context, *sdk.SubscribeRequest) error { return nil }
			o.UnsubscribeHandler = func(context.Context, *sdk.UnsubscribeRequest) error { return nil }
			o.CompletionHandler = func(context.Context, *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
				return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{}}}, nil
			}
		},
		Add: func(s *sdk.Server, ask mcpexpose.Asker) {
			addContent(s)
			addSessions(s)
			addRounds(s, ask)
			addResources(s)
			addPrompts(s, ask)
		},
	}
}

type handler func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error)

func tool(s *sdk.Server, name string, schema json.RawMessage, h handler) {
	s.AddTool(&sdk.Tool{Name: name, Description: "fixture " + name, InputSchema: schema}, sdk.ToolHandler(h))
}

func says(content ...sdk.Content) *sdk.CallToolResult { return &sdk.CallToolResult{Content: content} }

func text(format string, args ...any) *sdk.TextContent {
	return &sdk.TextContent{Text: fmt.Sprintf(format, args...)}
}

func fixed(content ...sdk.Content) handler {
	return func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return says(content...), nil }
}

func embedded(uri string) *sdk.EmbeddedResource {
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: uri, MIMEType: "text/plain", Text: "embedded"}}
}

func addContent(s *sdk.Server) {
	image := &sdk.ImageContent{Data: pixel, MIMEType: "image/png"}
	tool(s, "test_simple_text", anything, fixed(text("This is a simple text response for testing.")))
	tool(s, "test_image_content", anything, fixed(image))
	tool(s, "test_audio_content", anything, fixed(&sdk.AudioContent{Data: silence, MIMEType: "audio/wav"}))
	tool(s, "test_embedded_resource", anything, fixed(embedded("test://embedded-resource")))
	tool(s, "test_multiple_content_types", anything, fixed(text("several kinds"), image, embedded("test://embedded-in-multiple")))
	tool(s, "test_error_handling", anything, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r := says(text("this fixture always fails"))
		r.IsError = true
		return r, nil
	})
	tool(s, "json_schema_2020_12_tool", json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false,
		"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
		"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},
			"phone":{"type":"string"},"email":{"type":"string"}},
		"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
		"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]}}`), fixed(text("taken")))
	tool(s, "test_x_mcp_header", json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`), fixed(text("region")))
	tool(s, "test_streaming_elicitation", anything, fixed(text("a result and nothing else")))
}

// addSessions are features of a call under way: progress, logging, and requests from
// the server to the client, which the older era has.
func addSessions(s *sdk.Server) {
	log := func(ctx context.Context, r *sdk.CallToolRequest, lines ...string) {
		for _, line := range lines {
			_ = r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: line})
			time.Sleep(20 * time.Millisecond)
		}
	}
	tool(s, "test_tool_with_logging", anything, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		log(ctx, r, "begun", "under way", "done")
		return says(text("logged")), nil
	})
	tool(s, "test_logging_tool", anything, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		log(ctx, r, "only for whoever asked for it")
		return says(text("logged")), nil
	})
	tool(s, "test_tool_with_progress", anything, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for _, at := range []float64{0, 50, 100} {
			_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: at, Total: 100})
			time.Sleep(20 * time.Millisecond)
		}
		return says(text("%v", r.Params.GetProgressToken())), nil
	})
	tool(s, "test_reconnection", anything, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if r.Extra != nil && r.Extra.CloseSSEStream != nil {
			r.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
		}
		time.Sleep(100 * time.Millisecond)
		return says(text("came back")), nil
	})
	tool(s, "test_sampling", anything, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in struct{ Prompt string }
		_ = json.Unmarshal(r.Params.Arguments, &in)
		got, err := r.Session.CreateMessage(ctx, sampling(in.Prompt))
		if err != nil {
			return nil, err
		}
		answer, _ := got.Content.(*sdk.TextContent)
		if answer == nil {
			answer = text("no text")
		}
		return says(text("sampled: %s", answer.Text)), nil
	})
	elicits := func(schema any) handler {
		return func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var in struct{ Message string }
			_ = json.Unmarshal(r.Params.Arguments, &in)
			if in.Message == "" {
				in.Message = "please fill in"
			}
			got, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: in.Message, RequestedSchema: schema})
			if err != nil {
				return nil, err
			}
			return says(text("action=%s content=%v", got.Action, got.Content)), nil
		}
	}
	tool(s, "test_elicitation", anything, elicits(form("username", "string")))
	tool(s, "test_elicitation_sep1034_defaults", anything, elicits(json.RawMessage(`{"type":"object","properties":{
		"name":{"type":"string","default":"John Doe"},"age":{"type":"integer","default":30},"score":{"type":"number","default":95.5},
		"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},"verified":{"type":"boolean","default":true}}}`)))
	tool(s, "test_elicitation_sep1330_enums", anything, elicits(json.RawMessage(`{"type":"object","properties":{
		"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
		"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
		"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
		"untitledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"string","enum":["option1","option2","option3"]}},
		"titledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"anyOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]}}}}`)))
	for _, kind := range []string{"tool", "prompt"} {
		tool(s, "test_trigger_"+kind+"_change", anything, fixed(text("a shared server does not change under its clients")))
	}
}

func sampling(prompt string) *sdk.CreateMessageParams {
	return &sdk.CreateMessageParams{MaxTokens: 100, Messages: []*sdk.SamplingMessage{{Role: "user", Content: text("%s", prompt)}}}
}

// form is the schema of one required field.
func form(name, kind string) json.RawMessage {
	return fmt.Appendf(nil, `{"type":"object","properties":{%q:{"type":%q}},"required":[%q]}`, name, kind, name)
}

func elicit(message, name, kind string) *sdk.ElicitParams {
	return &sdk.ElicitParams{Message: message, RequestedSchema: form(name, kind)}
}

// accepted is the field of a form that the person filled in; nil: it was not.
func accepted(answers sdk.InputResponseMap, id, field string) any {
	e, ok := answers[id].(*sdk.ElicitResult)
	if !ok || e == nil || e.Action != "accept" {
		return nil
	}
	return e.Content[field]
}

func sampled(answers sdk.InputResponseMap, id string) (string, bool) {
	r, ok := answers[id].(*sdk.CreateMessageWithToolsResult)
	if !ok || r == nil {
		return "", false
	}
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			return t.Text, true
		}
	}
	return "", true
}

// addRounds are calls that ask their client for something and go on when it answers.
func addRounds(s *sdk.Server, ask mcpexpose.Asker) {
	// asks answers when done finds what it needs, and asks for it otherwise.
	asks := func(name string, inputs sdk.InputRequestMap, done func(sdk.InputResponseMap) (string, bool)) {
		tool(s, name, anything, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if _, _, err := ask.ToolState(ctx, r); err != nil {
				return nil, err
			}
			if answer, ok := done(r.Params.InputResponses); ok {
				return says(text("%s", answer)), nil
			}
			return ask.Tool(ctx, r, nil, inputs)
		})
	}
	name := elicit("What is your name?", "name", "string")
	asks("test_input_required_result_elicitation", sdk.InputRequestMap{"user_name": name}, func(a sdk.InputResponseMap) (string, bool) {
		v, ok := accepted(a, "user_name", "name").(string)
		return "Hello, " + v, ok && v != ""
	})
	asks("test_input_required_result_sampling", sdk.InputRequestMap{"capital_question": sampling("What is the capital of France?")}, func(a sdk.InputResponseMap) (string, bool) {
		return sampled(a, "capital_question")
	})
	asks("test_input_required_result_list_roots", sdk.InputRequestMap{"client_roots": &sdk.ListRootsParams{}}, func(a sdk.InputResponseMap) (string, bool) {
		r, ok := a["client_roots"].(*sdk.ListRootsResult)
		if !ok || r == nil {
			return "", false
		}
		return fmt.Sprintf("%d roots", len(r.Roots)), true
	})
	asks("test_input_required_result_multiple_inputs", sdk.InputRequestMap{"user_name": name, "greeting": sampling("Greet"), "client_roots": &sdk.ListRootsParams{}},
		func(a sdk.InputResponseMap) (string, bool) {
			v, named := accepted(a, "user_name", "name").(string)
			greeting, greeted := sampled(a, "greeting")
			_, rooted := a["client_roots"].(*sdk.ListRootsResult)
			return greeting + " " + v, named && greeted && rooted
		})
	// A confirmation counts only together with a state that is ours and fresh.
	for _, n := range []string{"test_input_required_result_request_state", "test_input_required_result_tampered_state"} {
		tool(s, n, anything, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			_, ours, err := ask.ToolState(ctx, r)
			if err != nil {
				return nil, err
			}
			if ours && accepted(r.Params.InputResponses, "confirm", "ok") != nil {
				return says(text("state-ok")), nil
			}
			return ask.Tool(ctx, r, nil, sdk.InputRequestMap{"confirm": elicit("Please confirm", "ok", "boolean")})
		})
	}
	tool(s, "test_input_required_result_multi_round", anything, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		state, ours, err := ask.ToolState(ctx, r)
		if err != nil {
			return nil, err
		}
		switch {
		case !ours:
			return ask.Tool(ctx, r, []byte("1"), sdk.InputRequestMap{"step1": name})
		case string(state) == "1":
			who, _ := accepted(r.Params.InputResponses, "step1", "name").(string)
			return ask.Tool(ctx, r, []byte("2"+who), sdk.InputRequestMap{"step2": elicit("Which color?", "color", "string")})
		}
		return says(text("%s likes %v", strings.TrimPrefix(string(state), "2"), accepted(r.Params.InputResponses, "step2", "color"))), nil
	})
	tool(s, "test_input_required_result_capabilities", anything, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if _, _, err := ask.ToolState(ctx, r); err != nil {
			return nil, err
		}
		if len(r.Params.InputResponses) > 0 {
			return says(text("answered")), nil
		}
		inputs := sdk.InputRequestMap{}
		if c := r.ClientCapabilities(); c != nil {
			if c.Elicitation != nil {
				inputs["user_name"] = name
			}
			if c.Sampling != nil {
				inputs["greeting"] = sampling("Greet")
			}
			if c.RootsV2 != nil {
				inputs["client_roots"] = &sdk.ListRootsParams{}
			}
		}
		if len(inputs) == 0 {
			return says(text("there is nobody to ask")), nil
		}
		return ask.Tool(ctx, r, nil, inputs)
	})
	tool(s, "test_missing_capability", anything, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if c := r.ClientCapabilities(); c != nil && c.Sampling != nil {
			return says(text("can sample")), nil
		}
		return ask.Tool(ctx, r, nil, sdk.InputRequestMap{"x": sampling("x")})
	})
}

func addResources(s *sdk.Server) {
	content := func(mime, body string, blob []byte) sdk.ResourceHandler {
		return func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: mime, Text: body, Blob: blob}}}, nil
		}
	}
	s.AddResource(&sdk.Resource{Name: "static-text", URI: "test://static-text", MIMEType: "text/plain"}, content("text/plain", "static text", nil))
	s.AddResource(&sdk.Resource{Name: "static-binary", URI: "test://static-binary", MIMEType: "image/png"}, content("image/png", "", pixel))
	s.AddResource(&sdk.Resource{Name: "watched-resource", URI: "test://watched-resource", MIMEType: "text/plain"}, content("text/plain", "watched", nil))
	s.AddResourceTemplate(&sdk.ResourceTemplate{Name: "template", URITemplate: "test://template/{id}/data", MIMEType: "application/json"},
		func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
			raw, err := json.Marshal(map[string]any{"id": id, "templateTest": true, "data": "Data for ID: " + id})
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: "application/json", Text: string(raw)}}}, err
		})
}

func addPrompts(s *sdk.Server, ask mcpexpose.Asker) {
	prompt := func(name string, arguments []string, content func(map[string]string) []sdk.Content) {
		p := &sdk.Prompt{Name: name, Description: "fixture " + name}
		for _, a := range arguments {
			p.Arguments = append(p.Arguments, &sdk.PromptArgument{Name: a, Required: true})
		}
		s.AddPrompt(p, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			for _, a := range arguments {
				if _, ok := r.Params.Arguments[a]; !ok {
					return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "an argument is missing"}
				}
			}
			result := &sdk.GetPromptResult{}
			for c := range slices.Values(content(r.Params.Arguments)) {
				result.Messages = append(result.Messages, &sdk.PromptMessage{Role: "user", Content: c})
			}
			return result, nil
		})
	}
	prompt("test_simple_prompt", nil, func(map[string]string) []sdk.Content {
		return []sdk.Content{text("This is a simple prompt for testing.")}
	})
	prompt("test_prompt_with_arguments", []string{"arg1", "arg2"}, func(a map[string]string) []sdk.Content {
		return []sdk.Content{text("Prompt with arguments: arg1='%s', arg2='%s'", a["arg1"], a["arg2"])}
	})
	prompt("test_prompt_with_embedded_resource", []string{"resourceUri"}, func(a map[string]string) []sdk.Content {
		return []sdk.Content{embedded(a["resourceUri"]), text("Read it.")}
	})
	prompt("test_prompt_with_image", nil, func(map[string]string) []sdk.Content {
		return []sdk.Content{&sdk.ImageContent{Data: pixel, MIMEType: "image/png"}, text("Look at it.")}
	})
	s.AddPrompt(&sdk.Prompt{Name: "test_input_required_result_prompt", Description: "asks first"}, func(ctx context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		if _, _, err := ask.PromptState(ctx, r); err != nil {
			return nil, err
		}
		if v, ok := accepted(r.Params.InputResponses, "user_context", "context").(string); ok {
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: text("Context: %s", v)}}}, nil
		}
		return ask.Prompt(ctx, r, nil, sdk.InputRequestMap{"user_context": elicit("Please provide context", "context", "string")})
	})
}
