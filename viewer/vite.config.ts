import preact from "@preact/preset-vite";
import { defineConfig } from "vite";

// The page has one script and one style sheet with fixed names: the server serves these files, and
// a report contains them. Nothing is inlined, since the page's content security policy forbids it.
// widget.js is the module with which a notebook shows the page; it has no code in common with it.
export default defineConfig({
  base: "./",
  plugins: [preact()],
  build: {
    outDir: "../src/gradwatch/view/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    rollupOptions: {
      input: { app: "index.html", widget: "src/widget/esm.ts" },
      preserveEntrySignatures: "exports-only",
      output: { entryFileNames: "[name].js", assetFileNames: "app[extname]" },
    },
  },
});
