import { rmSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";

/** Old files go; the .gitignore, which keeps the folder there, stays. */
function emptyDist(): Plugin {
  return {
    name: "empty-dist",
    apply: "build",
    buildStart() {
      for (const name of ["assets", "index.html"]) {
        rmSync(new URL(`dist/${name}`, import.meta.url), { recursive: true, force: true });
      }
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [emptyDist()],
  build: {
    outDir: "dist",
    emptyOutDir: false,
    target: "es2022",
    modulePreload: false,
    // One script and one style: a report file has both inside.
    cssCodeSplit: false,
    assetsInlineLimit: 0,
  },
  server: { proxy: { "/api": process.env["TTMEM_URL"] ?? "http://127.0.0.1:9400" } },
});
