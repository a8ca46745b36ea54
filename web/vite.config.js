import { defineConfig } from "vite";

// One classic script, so that it runs in a page opened from a folder and inside a notebook.
export default defineConfig({
  build: {
    lib: { entry: "src/index.ts", name: "regard", formats: ["iife"], fileName: () => "regard.js" },
    outDir: process.env.REGARD_OUT ?? "../src/regard/views/static",
    emptyOutDir: false,
    target: "es2022",
  },
  test: { include: ["test/**/*.test.ts"] },
});
