#!/usr/bin/env node
// Starts @PROGRAM@ as npm installed it for this platform, and ends as it ends.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `@subscope/${process.platform}-${process.arch}`;
let binary;
try {
  binary = require.resolve(`${name}/bin/@PROGRAM@`);
} catch {
  console.error(
    `@PROGRAM@: ${name} is not installed. npm installs it as an optional package (not with --omit=optional);\n` +
      "there are builds for Linux and macOS, each on x64 and arm64. Others: cargo install @PROGRAM@",
  );
  process.exit(1);
}

const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
// A terminal sends these to both; the binary decides what they mean.
for (const signal of ["SIGINT", "SIGQUIT"]) process.on(signal, () => {});
// Others reach this process alone.
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));

child.on("error", (error) => {
  console.error(`@PROGRAM@: cannot start ${binary}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  process.exit(signal ? 128 + constants.signals[signal] : code);
});
