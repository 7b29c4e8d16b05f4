import preact from "@preact/preset-vite";
import { defineConfig } from "vite";

// The build has one script and one style sheet with fixed names: the server serves these files, and
// a report contains them. Nothing is inlined, since the page's content security policy forbids it.
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
