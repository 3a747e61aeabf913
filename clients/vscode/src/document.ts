// The document of the panel.

/**
 * Returns the document of the panel from that of `web/dist`: its own files by `address`, a policy that allows nothing but
 * them, and the mark by which the page knows where it is.
 */
export function documentOf(index: string, address: (file: string) => string, source: string, nonce: string): string {
  const policy = [
    "default-src 'none'",
    // The nonce covers the modules that the script imports.
    `script-src 'nonce-${nonce}'`,
    `style-src ${source}`,
    `img-src ${source} data:`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  return index
    .replace("<html", '<html data-host="panel"')
    .replace('<meta charset="utf-8" />', `<meta charset="utf-8" /><meta http-equiv="Content-Security-Policy" content="${policy}">`)
    .replaceAll(/"\.\/(assets\/[\w.-]+)"/g, (_, file: string) => `"${address(file)}"`)
    .replaceAll("<script ", `<script nonce="${nonce}" `);
}
