// The Go SDK: `client TRANSPORT`, which is `http` or `sse`. 1.7 speaks 2026-07-28, 1.6 speaks 2025-11-25. The frame of the
// program is in it; program.py describes the lines.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	prefix = "lost__"
	// ends a call that hangs
	most = 45 * time.Second
)

type request struct {
	ID        int            `json:"id"`
	Do        string         `json:"do"`
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
	Timeout   float64        `json:"timeout"`
	Abort     float64        `json:"abort"`
	Progress  bool           `json:"progress"`
}

var place struct {
	Key string `json:"key"`
	URL string `json:"url"`
}

// keyed sends the key with each request.
type keyed struct{}

func (keyed) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+place.Key)
	return http.DefaultTransport.RoundTrip(request)
}

type program struct {
	transport  string
	connection sync.RWMutex
	session    *mcp.ClientSession
	changes    atomic.Int64
	writing    sync.Mutex
}

func (p *program) reply(members map[string]any) {
	line, _ := json.Marshal(members)
	p.writing.Lock()
	defer p.writing.Unlock()
	fmt.Printf("@%s\n", line)
}

func (p *program) connect() error {
	p.connection.Lock()
	defer p.connection.Unlock()
	if p.session != nil {
		go p.session.Close()
	}
	p.changes.Store(0)
	client := mcp.NewClient(&mcp.Implementation{Name: "lost-go", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { p.changes.Add(1) },
	})
	over := &http.Client{Transport: keyed{}}
	var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: place.URL + "/mcp", HTTPClient: over}
	if p.transport == "sse" {
		transport = &mcp.SSEClientTransport{Endpoint: place.URL + "/sse", HTTPClient: over}
	}
	// the connection lives as long as this context
	session, err := client.Connect(context.Background(), transport, nil)
	p.session = session
	return err
}

func seconds(given float64) time.Duration {
	return time.Duration(given * float64(time.Second))
}

func (p *program) call(given request) (string, error) {
	limit := most
	for _, bound := range []float64{given.Timeout, given.Abort} {
		if bound > 0 {
			limit = seconds(bound)
		}
	}
	within, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	p.connection.RLock()
	session := p.session
	p.connection.RUnlock()
	params := &mcp.CallToolParams{Name: prefix + given.Tool, Arguments: given.Arguments}
	if given.Progress {
		params.Meta = mcp.Meta{}
		params.SetProgressToken(fmt.Sprint("p", given.ID))
	}
	found, err := session.CallTool(within, params)
	if err != nil {
		return "", err
	}
	if text, ok := found.Content[0].(*mcp.TextContent); ok {
		return text.Text, nil
	}
	return "", errors.New("no text")
}

func (p *program) answer(given request) {
	members := map[string]any{"id": given.ID}
	var err error
	switch given.Do {
	case "connect":
		err = p.connect()
	case "heard":
		members["changes"] = p.changes.Load()
	case "call":
		members["text"], err = p.call(given)
	}
	if err != nil {
		delete(members, "text")
		members["error"] = err.Error()
	}
	p.reply(members)
}

func main() {
	if err := json.Unmarshal([]byte(os.Getenv("INTEROP")), &place); err != nil {
		panic(err)
	}
	p := &program{transport: os.Args[1]}
	p.reply(map[string]any{"ready": true})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var given request
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			panic(err)
		}
		go p.answer(given)
	}
}
