package extension

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	words "troupe/protocol/extension"
)

// TestSockets: servers and clients of node:net over TCP and Unix sockets, what they
// move, how they end and fail.
func TestSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sockets.ts")
	require.NoError(t, os.WriteFile(path, []byte(`
import net from "node:net";
import { existsSync } from "node:fs";
import { once } from "node:events";

async function talk(where: any, words: string) {
  const server = net.createServer((s) => { s.on("data", (b) => s.write(b.toString().toUpperCase())); });
  server.listen(...where);
  await once(server, "listening");
  const at: any = server.address();
  const client = typeof at === "string" ? net.connect(at) : net.createConnection({ port: at.port, host: "127.0.0.1" });
  let got = "";
  client.setEncoding("utf8");
  client.on("data", (s) => { got += s; if (got.length >= words.length) client.end(); });
  client.write(words); // before it is connected
  const events: string[] = [];
  for (const name of ["connect", "end", "close"]) client.on(name, () => events.push(name));
  await once(client, "close");
  await new Promise<void>((done) => server.close(() => done()));
  return [got === words.toUpperCase(), events.join(), client.bytesWritten, typeof at];
}

export default function (pi: any) {
  pi.registerCommand("go", { handler: async (path: string) => {
    const results: any[] = [await talk([0, "127.0.0.1"], "over tcp"), await talk([path], "x".repeat(300000))];
    results.push(existsSync(path));
    const refused = net.connect(1, "127.0.0.1");
    results.push(await once(refused, "error").then(([e]: any) => [e.code, e.message]));
    results.push(await once(net.connect(path), "error").then(([e]: any) => [e.code, e.syscall]));
    const first = net.createServer().listen(path);
    await once(first, "listening");
    results.push(await once(net.createServer().listen(path), "error").then(([e]: any) => [e.code, e.address]));
    pi.appendEntry("said", results);
  } });
}
`), 0o600))
	w := load(t, path)
	require.Empty(t, w.ready.Errors)
	sock := filepath.Join(t.TempDir(), "s")
	w.vm.Command(1, "go", sock)
	require.Empty(t, wait[words.CommandDone](w).Err)
	require.Contains(t, w.acts("appendEntry")[0], `[[true,"connect,end,close",8,"object"],[true,"connect,end,close",300000,"string"],false,`+
		`["ECONNREFUSED","connect ECONNREFUSED 127.0.0.1:1"],["ENOENT","connect"],["EADDRINUSE","`+sock+`"]]`)
}
