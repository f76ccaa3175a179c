// Runs a check that was compiled to WebAssembly, as a program with arguments and an exit code:
//     node run_wasi.mjs compare_kernels.wasm wasm
import { readFileSync } from "node:fs";
import { WASI } from "node:wasi";

const [file, ...words] = process.argv.slice(2);
const wasi = new WASI({ version: "preview1", args: [file, ...words] });
const imports = { ...wasi.getImportObject(), env: { emscripten_notify_memory_growth() {} } };
const { instance } = await WebAssembly.instantiate(readFileSync(file), imports);
process.exit(wasi.start(instance));
