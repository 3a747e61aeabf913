import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/** Placeholder of the session in the saved page; crates/page has the same word. */
const PLACE = "@subscope-saved@";

const digest = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** The page as one file that works from disk: script and style are embedded, and the policy allows nothing else. */
function saved(): Plugin {
  return {
    name: "saved",
    enforce: "post",
    generateBundle(_, bundle) {
      const files = Object.values(bundle);
      const script = files.flatMap((file) => (file.type === "chunk" ? [file.code] : []));
      const style = files.flatMap((file) =>
        file.type === "asset" && file.fileName.endsWith(".css") ? [String(file.source)] : [],
      );
      const [code, css] = [script[0], style[0]];
      if (script.length !== 1 || style.length !== 1 || code === undefined || css === undefined) {
        throw new Error("the saved page is made of one script and one style");
      }
      // Later imports are embedded, so nothing is to be preloaded: Vite leaves its placeholder unfilled.
      const inert = code.replaceAll("__VITE_PRELOAD__", "void 0").replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
      const policy = `default-src 'none'; script-src ${digest(inert)}; style-src ${digest(css)}; img-src data:; base-uri 'none'; form-action 'none'`;
      const source = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="dark light">',
        `<title>subscope</title><style>${css}</style></head><body><div id="app"></div>`,
        `<script id="subscope-saved" type="application/json">${PLACE}</script>`,
        `<script type="module">${inert}</script></body></html>\n`,
      ].join("\n");
      // The file is complete: drop all other files of this build.
      for (const name of Object.keys(bundle)) delete bundle[name];
      this.emitFile({ type: "asset", fileName: "saved.html", source });
    },
  };
}

/** Copies icons without a hash in their names. */
function icons(): Plugin {
  return {
    name: "icons",
    generateBundle() {
      for (const icon of ["icon.svg", "icon-needs.svg"]) {
        this.emitFile({ type: "asset", fileName: `assets/${icon}`, source: readFileSync(icon) });
      }
    },
  };
}

export default defineConfig(({ mode }) => ({
  plugins: [svelte(), mode === "saved" ? saved() : icons()],
  base: "./",
  build: {
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    // The second build adds the saved page, with everything in one script.
    emptyOutDir: mode !== "saved",
    rolldownOptions: { output: { codeSplitting: mode !== "saved" } },
  },
  test: { environment: "jsdom", include: ["test/**/*.test.ts"] },
}));
