// build.mjs OUT - bundles the page into OUT and prints, as JSON, the files of OUT and the sources that they were made from.
// Names carry the hash of the content. tools/build_page.py compresses the files and embeds them in the program.
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";
import { basename, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = resolve(process.argv[2]);
const languages = ["en", "ja", "zh"];

/** `texts:ja` is texts.json cut down to one language, so that a browser loads one of the three. */
const texts = {
  name: "texts",
  setup(build) {
    build.onResolve({ filter: /^texts:/ }, (args) => ({ path: args.path.slice(6), namespace: "texts" }));
    build.onLoad({ filter: /.*/, namespace: "texts" }, async (args) => {
      const path = resolve(here, "texts.json");
      const all = JSON.parse(await readFile(path, "utf8"));
      const at = languages.indexOf(args.path);
      const one = Object.fromEntries(Object.entries(all).map(([key, words]) => [key, words[at]]));
      return { contents: `export default ${JSON.stringify(one)}`, loader: "js", watchFiles: [path] };
    });
  },
};

/** Every text is there in every language, with the same {placeholders}; only English has the ending of more than one. */
function checkTexts(all) {
  const holes = (text) => [...new Set(text.match(/\{\w+\}/g) ?? [])].filter((one) => one !== "{s}" && one !== "{es}").sort().join();
  for (const [key, words] of Object.entries(all)) {
    if (words.length !== languages.length || words.some((word) => typeof word !== "string" || word.trim() === ""))
      throw new Error(`texts.json: ${key} is not there in every language`);
    if (new Set(words.map(holes)).size > 1) throw new Error(`texts.json: ${key} does not have the same {placeholders} in every language`);
  }
}
checkTexts(JSON.parse(await readFile(resolve(here, "texts.json"), "utf8")));

const result = await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx", style: "src/style.css" },
  outdir: out,
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["chrome111", "firefox113", "safari16.4"],
  minify: true,
  charset: "utf8",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  metafile: true,
  plugins: [texts],
  logLevel: "warning",
});

const files = [];
const first = { js: "", css: "" };
for (const [path, output] of Object.entries(result.metafile.outputs)) {
  const name = basename(path);
  files.push({
    name,
    entry: output.entryPoint ?? null,
    imports: output.imports.filter((one) => one.kind === "import-statement").map((one) => basename(one.path)),
  });
  if (output.entryPoint === "src/main.tsx") first.js = name;
  if (output.entryPoint === "src/style.css") first.css = name;
}

const html = await readFile(resolve(here, "index.html"), "utf8");
await writeFile(resolve(out, "index.html"), html.replace("app.js", first.js).replace("style.css", first.css));
files.push({ name: "index.html", entry: "index.html", imports: [first.js, first.css] });

const inputs = Object.keys(result.metafile.inputs)
  .filter((path) => !path.startsWith("texts:"))
  .map((path) => relative(here, resolve(here, path)));
process.stdout.write(JSON.stringify({ files, inputs: [...inputs, "texts.json", "index.html", "build.mjs"] }));
