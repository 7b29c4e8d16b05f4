import preact from "@preact/preset-vite";
import { defineConfig } from "vite";

// One script and one style sheet, by fixed names: the server serves just these, and a report
// carries them inside itself. Nothing is inlined into the page, whose policy forbids it.
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
      output: {
        entryFileNames: "app.js",
        assetFileNames: "app[extname]",
        codeSplitting: false,
      },
    },
  },
});
