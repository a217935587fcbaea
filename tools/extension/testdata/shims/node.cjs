// Runs a suite in Node.
const [, , name, dir, file] = process.argv;
const said = [];
require(`./${name}.js`)(require, dir, (what, value) => said.push([what, String(value)])).then(() => {
  require("node:fs").writeFileSync(file, JSON.stringify(said));
  process.exit(0);
});
