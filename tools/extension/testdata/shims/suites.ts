// Runs a suite inside an extension and writes what it says to the file that the
// environment names.
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import pure from "./pure.js";
import host from "./host.js";
import shims from "./shims.js";
import intl from "./intl.js";

const suites: Record<string, any> = { pure, host, shims, intl };

export default async function (pi: any) {
	pi.registerCommand("suite", {
		handler: async (args: string) => {
			const [name, dir, file] = args.split(" ");
			const said: [string, string][] = [];
			await suites[name](createRequire(import.meta.url), dir, (what: string, value: any) => said.push([what, String(value)]));
			writeFileSync(file, JSON.stringify(said));
		},
	});
}
