// RpcClient starts its program with node. This stands between: it runs the
// binary under test on the same pipes.
const { spawn } = require("node:child_process");
const child = spawn(process.env.TROUPE_BINARY, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code) => process.exit(code ?? 1));
