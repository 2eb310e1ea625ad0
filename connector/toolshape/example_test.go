package toolshape_test

import (
	"fmt"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/connector/toolshape"
)

func Example() {
	// The assistant message of an answer by Chat Completions.
	answer := []byte(`{"role":"assistant","content":null,"tool_calls":[
		{"id":"call_1","type":"function","function":{"name":"tickets-get","arguments":"{\"id\":\"7\"}"}}]}`)
	calls, err := toolshape.OpenAI.Calls(answer)
	if err != nil {
		panic(err)
	}
	var results []connector.Result
	for _, c := range calls {
		fmt.Println(c.ID, c.Tool, string(c.Arguments))
		// A host calls Runtime.Execute here.
		results = append(results, connector.Result{CallID: c.ID, Tool: c.Tool, Status: connector.StatusEmpty})
	}
	messages, err := toolshape.OpenAI.Results(results)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(messages)[:45])
	// Output:
	// call_1 tickets.get {"id":"7"}
	// [{"role":"tool","tool_call_id":"call_1","cont
}
