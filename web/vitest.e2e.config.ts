import { defineConfig } from "vitest/config";

const asked = ["speed", "pictures", "developers"].find((name) => process.argv.includes(name));

export default defineConfig({
  test: {
    environment: "node",
    // Measurements and pictures run only by name: they assert nothing.
    include: [asked === undefined ? "e2e/*.test.ts" : `e2e/${asked}.*.ts`],
    // Parallel browsers would slow each other down.
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 60_000,
    teardownTimeout: 10_000,
    // A busy machine is slow. Times are measured elsewhere.
    expect: { poll: { timeout: 20_000 } },
  },
});
