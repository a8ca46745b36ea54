import { defineConfig } from "vite";

// Classic scripts, so that they run in a page opened from a folder and inside a notebook: regard.js has the components
// and asks nobody for anything; app.js (--mode app) has the web application too, which asks its server; graph.js
// (--mode graph) is what draws graphs, and only pages with graphs carry it.
const ENTRIES = { app: "src/app/index.ts", graph: "src/sigma.ts" };

export default defineConfig(({ mode }) => ({
  build: {
    lib: {
      entry: ENTRIES[mode] ?? "src/index.ts", name: mode === "graph" ? "regardGraphs" : "regard", formats: ["iife"],
      fileName: () => (mode in ENTRIES ? `${mode}.js` : "regard.js"),
    },
    outDir: process.env.REGARD_OUT ?? "../src/regard/views/static",
    emptyOutDir: false,
    target: "es2022",
  },
  define: { "process.env.NODE_ENV": '"production"' },
  test: { include: ["test/**/*.test.ts"] },
}));
