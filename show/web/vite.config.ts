import { readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";

const GLOSSARY = fileURLToPath(new URL("../tui/src/glossary.rs", import.meta.url));

/** The words of the terminal view: one glossary for both, `import { WORDS } from "virtual:glossary"`. */
export function glossary(): Plugin {
  const id = "\0virtual:glossary";
  return {
    name: "glossary",
    resolveId: (name) => (name === "virtual:glossary" ? id : null),
    load(name) {
      if (name !== id) return null;
      this.addWatchFile(GLOSSARY);
      return `export const WORDS = ${JSON.stringify(words(readFileSync(GLOSSARY, "utf8")))};`;
    },
  };
}

/** The rows of `words! { … }`: a term and its meaning. */
function words(source: string): [string, string][] {
  const table = source.slice(source.indexOf("\nwords! {"), source.indexOf("\n#[cfg(test)]"));
  const rows = table.matchAll(/^ {4}\w+ "([^"]+)"\s+"((?:[^"\\]|\\\s*\n)*)"/gm);
  const found = [...rows].map(([, term, meaning]): [string, string] => [
    term ?? "",
    (meaning ?? "").replace(/\\\s*\n\s*/g, ""),
  ]);
  if (found.length < 20) throw new Error(`${GLOSSARY} has ${found.length} words: its form has changed`);
  return found;
}

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
  plugins: [glossary(), emptyDist()],
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
