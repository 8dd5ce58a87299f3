import { defineConfig } from "vitest/config";
import { glossary } from "./vite.config.ts";

export default defineConfig({
  plugins: [glossary()],
  test: {
    include: ["tests/**/*.test.ts"],
    // One browser and one server at a time.
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
});
