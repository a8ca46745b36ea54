import { defineConfig } from "vite";

// Classic scripts, so that they run in a page opened from a folder and inside a notebook: regard.js has the components
// and asks nobody for anything; app.js (--mode app) has the web application too, which asks its server.
export default defineConfig(({ mode }) => {
  const app = mode === "app";
  return {
    build: {
      lib: {
        entry: app ? "src/app/index.ts" : "src/index.ts", name: "regard", formats: ["iife"],
        fileName: () => (app ? "app.js" : "regard.js"),
      },
      outDir: process.env.REGARD_OUT ?? "../src/regard/views/static",
      emptyOutDir: false,
      target: "es2022",
    },
    test: { include: ["test/**/*.test.ts"] },
  };
});
