package providertest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"troupe/protocol"
	"troupe/providers"
)

// BenchmarkDeltas measures what one delta costs from the socket to the part.
func BenchmarkDeltas(b *testing.B, fixture Fixture) {
	a := short
	pieces := make([]string, 5000)
	for i := range pieces {
		pieces[i] = " a few words"
	}
	a.Blocks = []Block{{Kind: protocol.BlockText, Pieces: pieces}}
	stream := join(fixture.Answer(a))
	server := httptest.NewServer(http.HandlerFunc(play(stream, 0)))
	defer server.Close()
	client := providers.NewClient(providers.ClientConfig{})
	defer client.Close()
	provider, req := fixture.New(client), question(fixture.Model(server.URL))
	b.ReportAllocs()
	for n := 0; n < b.N; {
		for part, err := range provider.Stream(b.Context(), req) {
			if err != nil {
				b.Fatal(err)
			}
			if _, ok := part.(protocol.PartDelta); ok {
				n++
			}
		}
	}
}
