// RpcClient of pi starts its program with Node.js. This file passes its pipes and arguments on to troupe:
//   new RpcClient({ cliPath: "/path/to/troupe.cjs" })
const { spawn } = require("node:child_process");
const child = spawn(process.env.TROUPE_BINARY ?? "troupe", process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => { console.error(`cannot start troupe: ${error.message}`); process.exit(1); });
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code) => process.exit(code ?? 1));
