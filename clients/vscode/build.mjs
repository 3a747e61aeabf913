// Builds the extension: one bundle, and a copy of the page that `web/dist` holds.

import { cpSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

/** Most bytes of the bundle. */
const MOST = 300_000;

const own = (path) => fileURLToPath(new URL(path, import.meta.url));

await build({
  entryPoints: [own("src/extension.ts")],
  outfile: own("dist/extension.js"),
  bundle: true,
  minify: true,
  platform: "node",
  target: "node20",
  format: "cjs",
  external: ["vscode"],
  logLevel: "warning",
});

rmSync(own("page"), { recursive: true, force: true });
cpSync(own("../../web/dist/index.html"), own("page/index.html"));
cpSync(own("../../web/dist/assets"), own("page/assets"), { recursive: true });

for (const name of ["LICENSE-APACHE", "LICENSE-MIT"]) cpSync(own(`../../${name}`), own(name));

const size = (path) => (statSync(path).isFile() ? statSync(path).size : readdirSync(path).reduce((sum, name) => sum + size(join(path, name)), 0));
const bytes = size(own("dist/extension.js"));
console.log(`dist/extension.js: ${bytes} bytes (at most ${MOST}); page: ${size(own("page"))} bytes`);
if (bytes > MOST) {
  console.error(`the bundle is larger than ${MOST} bytes`);
  process.exit(1);
}
