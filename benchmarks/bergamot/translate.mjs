// Translates the lines of standard input with Bergamot's WASM engine, which Firefox uses, one line at a time.
//
//   node translate.mjs PACKAGE MODEL VOCABULARY[,TARGET_VOCABULARY] PRECISION BEAM
//
// PACKAGE is the folder of @browsermt/bergamot-translator; no shortlist is given, as in Firefox.
import { readFileSync } from "node:fs";
import { webcrypto } from "node:crypto";
import path from "node:path";
import vm from "node:vm";

const [, , folder, model, vocabularies, precision, beam] = process.argv;
const worker = path.join(folder, "worker");
// The products of matrices are imports of the engine; Firefox has its own, others take those that the engine exports.
const products = [
  "PrepareA", "PrepareB", "PrepareBFromTransposed", "PrepareBFromQuantizedTransposed", "PrepareBias",
  "MultiplyAndAddBias", "SelectColumnsOfB",
];
const snake = (name) => `int8${name.replace(/[A-Z][a-z]*/g, (word) => `_${word.toLowerCase()}`)}`;

async function open() {
  const wasm = readFileSync(path.join(worker, "bergamot-translator-worker.wasm"));
  const ready = Promise.withResolvers?.() ?? deferred();
  const engine = {
    print: console.error,
    printErr: console.error,
    onRuntimeInitialized: () => ready.resolve(),
    instantiateWasm(imports, accept) {
      const own = products.map((name) => [snake(name), (...values) => engine.asm[`int8${name}Fallback`](...values)]);
      const all = { ...imports, wasm_gemm: Object.fromEntries(own) };
      WebAssembly.instantiate(wasm, all).then(({ instance }) => accept(instance), ready.reject);
      return {};
    },
  };
  Object.assign(globalThis, { Module: engine, self: globalThis });
  globalThis.crypto ??= webcrypto;
  vm.runInThisContext(readFileSync(path.join(worker, "bergamot-translator-worker.js"), "utf8"));
  await ready.promise;
  return engine;
}

function deferred() {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
}

function loaded(engine, file, alignment) {
  const bytes = readFileSync(file);
  const memory = new engine.AlignedMemory(bytes.byteLength, alignment);
  memory.getByteArrayView().set(bytes);
  return memory;
}

const engine = await open();
const pieces = new engine.AlignedMemoryList();
for (const file of vocabularies.split(",")) pieces.push_back(loaded(engine, file, 64));
const settings = {
  "beam-size": beam, normalize: "1.0", "word-penalty": 0, "max-length-break": 128, "max-length-factor": "2.0",
  "mini-batch-words": 1024, workspace: 128, "skip-cost": beam === "1", "cpu-threads": 0, quiet: true,
  "quiet-translation": true, "ssplit-mode": "sentence", "gemm-precision": precision,
};
const text = Object.entries(settings).map(([name, value]) => `${name}: ${value}\n`).join("");
const noShortlist = new engine.AlignedMemory(0, 64);
const student = new engine.TranslationModel(text, loaded(engine, model, 256), noShortlist, pieces, null);
const service = new engine.BlockingService({ cacheSize: 0 });
const lines = readFileSync(0, "utf8").split("\n").filter((line) => line.trim());
const began = process.hrtime.bigint();
for (const line of lines) {
  const texts = new engine.VectorString();
  const options = new engine.VectorResponseOptions();
  texts.push_back(line);
  options.push_back({ qualityScores: false, alignment: false, html: false });
  const responses = service.translate(student, texts, options);
  console.log(responses.get(0).getTranslatedText().replaceAll("\n", " "));
  for (const each of [texts, options, responses]) each.delete();
}
console.error(JSON.stringify({ seconds: Number(process.hrtime.bigint() - began) / 1e9 }));
