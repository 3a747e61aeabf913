import { defineConfig } from "vitest/config";

const asked = ["speed", "pictures", "developers"].find((name) => process.argv.includes(name));

export default defineConfig({
  test: {
    environment: "node",
    // Measuring and taking pictures are asked for by name: they judge nothing.
    include: [asked === undefined ? "e2e/*.test.ts" : `e2e/${asked}.*.ts`],
    // Two browsers beside each other measure each other.
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 60_000,
    teardownTimeout: 10_000,
    // A loaded machine is slow to show what it shows; what must come within a time is measured.
    expect: { poll: { timeout: 20_000 } },
  },
});
