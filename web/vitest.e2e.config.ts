import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    environment: "node",
    // Measuring is asked for by name: it judges nothing.
    include: [process.argv.includes("speed") ? "e2e/*.measure.ts" : "e2e/*.test.ts"],
    // Two browsers beside each other measure each other.
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 60_000,
    teardownTimeout: 10_000,
  },
});
