import { defineConfig } from "vitest/config";
import { Failures } from "./tests/failures.ts";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    // One browser and one server at a time.
    fileParallelism: false,
    // Only what hangs: tests wait for conditions, and others may have the machine.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    reporters: ["default", new Failures()],
  },
});
