// Packed binary networks in browsers and in Node:
//
//     import { load } from "binaryduo";
//     const model = await load("net.duo");
//     const logits = model.run(images);      // Float32Array, N × C × H × W in, N × classes out;
//                                           // Uint8Array where packed with input="uint8"
//
// index.d.ts documents every name. The engine is C++ compiled to WebAssembly (engine.wasm beside this file); this is
// the thin part around it: find bytes, copy them in, copy results out. It needs no other package.

const INPUT = 0, OUTPUT = 1, ANY = 2;
const FLOAT32 = 0, KINDS = ["float32", "bits", "uint8"];

export class DuoError extends Error {
  constructor(sentence) {
    super(sentence);
    this.name = "DuoError";
  }
}

const shown = (source) => (source instanceof URL ? source.href : typeof source === "string" ? source : "the model");

async function bytesOf(source, what) {
  if (source instanceof Uint8Array) return source;
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (typeof Blob !== "undefined" && source instanceof Blob) return new Uint8Array(await source.arrayBuffer());
  if (typeof Response !== "undefined" && source instanceof Response) {
    if (!source.ok) throw new DuoError(`${source.url || what} cannot be read: the server answered ${source.status}`);
    return new Uint8Array(await source.arrayBuffer());
  }
  if (!(typeof source === "string" || source instanceof URL))
    throw new DuoError("load takes an address, a Response, a Blob, an ArrayBuffer or a Uint8Array");
  const address = String(source);
  // Node's fetch reads no files; there, what is not an address of the web is a path.
  if (typeof process !== "undefined" && process.versions?.node && !/^(https?|data|blob):/.test(address)) {
    const { readFile } = await import("node:fs/promises");
    try {
      return new Uint8Array(await readFile(address.startsWith("file:") ? new URL(address) : address));
    } catch (error) {
      throw new DuoError(`${address} cannot be read: ${error.code ?? error.message}`);
    }
  }
  let response;
  try {
    response = await fetch(address);
  } catch (error) {
    throw new DuoError(`${address} cannot be read: ${error.message}`);
  }
  return bytesOf(response, address);
}

let shipped; // the compiled engine that lies beside this file

async function engineOf(given) {
  if (given instanceof WebAssembly.Module) return given;
  const compile = async (source) => {
    try {
      return await WebAssembly.compile(await bytesOf(source, "the engine"));
    } catch (error) {
      if (error instanceof DuoError) throw error;
      throw new DuoError(`this browser cannot run the engine, which needs WebAssembly with SIMD: ${error.message}`);
    }
  };
  if (given !== undefined) return compile(given);
  shipped ??= compile(new URL("./engine.wasm", import.meta.url)).catch((error) => {
    shipped = undefined; // so that the next load tries again
    throw error;
  });
  return shipped;
}

/** Opens a packed model; every checksum is verified first. */
export async function load(source, options = {}) {
  const [bytes, engine] = await Promise.all([bytesOf(source, "the model"), engineOf(options.engine)]);
  return new Model(bytes, await instantiate(engine), options.name ?? shown(source), options.checkFinite ?? true);
}

async function instantiate(engine) {
  const state = { watch: null };
  const instance = await WebAssembly.instantiate(engine, {
    env: {
      watched: (operation, tensor, values) => state.watch?.(operation, tensor, values),
      emscripten_notify_memory_growth() {},
    },
    wasi_snapshot_preview1: {
      proc_exit(code) {
        throw new DuoError(`the engine ended with code ${code}: the model needs more memory than there is`);
      },
      // No environment: there are no variables to choose an instruction set by.
      environ_sizes_get: (count, size) => {
        new Uint32Array(instance.exports.memory.buffer, count, 1)[0] = 0;
        new Uint32Array(instance.exports.memory.buffer, size, 1)[0] = 0;
        return 0;
      },
      environ_get: () => 0,
    },
  });
  instance.exports._initialize();
  return { calls: instance.exports, state };
}

class Model {
  #calls;
  #state;
  #model;
  #arena;
  #buffers = [];
  #images = 0; // that the buffers have room for
  #checkFinite;

  constructor(bytes, { calls, state }, name, checkFinite) {
    this.#calls = calls;
    this.#state = state;
    this.#checkFinite = checkFinite;
    const label = this.#put(new TextEncoder().encode(name + "\0"));
    this.#model = calls.web_open(this.#put(bytes), bytes.length, label);
    if (!this.#model) throw new DuoError(this.#error());
    this.#arena = this.#allocate(calls.web_arena_bytes(this.#model));

    const all = this.#json();
    const names = Array.isArray(all.tensors) ? all.tensors : [];
    const list = (which) =>
      Array.from({ length: calls.web_count(this.#model, which) }, (_, i) => this.#tensor(which, i, names));
    this.inputs = list(INPUT);
    this.outputs = list(OUTPUT);
    this.tensors = list(ANY);
    this.operations = Array.isArray(all.ops) ? all.ops.map(String) : [];
    this.meta = {};
    for (const [key, value] of Object.entries(all.meta ?? {})) this.meta[key] = String(value);
    this.classes = this.meta.classes ? this.meta.classes.split("\n") : [];
    this.bytes = bytes.length;
    this.version = this.#text(calls.web_version());
  }

  /** The results of any number of images, and the way there where somebody watches. */
  run(...images) {
    return this.#run(images, false);
  }

  /** Every activation of one image, in the order in which they are computed. */
  trace(...image) {
    const written = [];
    const count = this.#count(image);
    if (count !== 1) throw new DuoError(`trace takes one image, not ${count}`);
    this.#state.watch = (operation, number, at) => {
      const tensor = this.tensors[number];
      const raw = new Uint8Array(this.#calls.memory.buffer, at, tensor.bytes);
      const by = operation < 0 ? "input" : (this.operations[operation] ?? `operation ${operation}`);
      written.push({ ...tensor, operation: by, values: tensor.kind === "bits" ? bitsOf(tensor, raw) : valuesOf(tensor, raw) });
    };
    try {
      this.#run(image, true);
    } finally {
      this.#state.watch = null;
    }
    return written;
  }

  /** Gives the engine's memory back; the model cannot be used after it. */
  close() {
    this.#model = 0;
    this.#calls = null;
  }

  #run(images, watch) {
    const count = this.#count(images);
    this.#reserve(count);
    const calls = this.#calls;
    this.inputs.forEach((tensor, i) => {
      const values = images[i];
      if (this.#checkFinite && values instanceof Float32Array) {
        const at = values.findIndex((value) => !Number.isFinite(value));
        if (at >= 0)
          throw new DuoError(
            `image ${Math.floor(at / sizeOf(tensor))} holds ${values[at]}: an answer to it would mean nothing; ` +
              "load(…, { checkFinite: false }) leaves this check out",
          );
      }
      new (typeOf(tensor))(calls.memory.buffer, this.#buffers[i], values.length).set(values);
    });
    const inputs = this.#buffers.slice(0, this.inputs.length), outputs = this.#buffers.slice(this.inputs.length);
    const [into, from] = [this.#put(new Uint32Array(inputs)), this.#put(new Uint32Array(outputs))];
    const arena = calls.web_arena_bytes(this.#model);
    const failed = calls.web_run(this.#model, count, into, from, this.#arena, arena, watch ? 1 : 0);
    calls.free(into);
    calls.free(from);
    if (failed) throw new DuoError(this.#error());
    const results = this.outputs.map((tensor, i) =>
      new Float32Array(calls.memory.buffer, outputs[i], count * sizeOf(tensor)).slice(),
    );
    return results.length === 1 ? results[0] : results;
  }

  #count(images) {
    if (!this.#calls) throw new DuoError("this model has been closed: load it again");
    if (images.length !== this.inputs.length)
      throw new DuoError(`the model has ${this.inputs.length} inputs, and ${images.length} were given`);
    let count = -1;
    this.inputs.forEach((tensor, i) => {
      const { channels, height, width } = tensor, size = sizeOf(tensor);
      const type = typeOf(tensor);
      if (!(images[i] instanceof type))
        throw new DuoError(`images must be a ${type.name}, N × ${channels} × ${height} × ${width} numbers`);
      if (images[i].length % size || (count >= 0 && images[i].length !== count * size))
        throw new DuoError(
          `images must be N × ${channels} × ${height} × ${width} = N × ${size} numbers, not ${images[i].length}`,
        );
      count = images[i].length / size;
    });
    return count;
  }

  #reserve(images) {
    if (images <= this.#images) return;
    this.#buffers.forEach((at) => this.#calls.free(at));
    this.#images = 0;
    this.#buffers = [...this.inputs, ...this.outputs].map((t) => this.#allocate(4 * images * sizeOf(t)));
    this.#images = images;
  }

  #allocate(bytes) {
    const at = this.#calls.malloc(bytes + 16);
    if (!at) throw new DuoError(`${bytes} bytes of memory are needed, and there are not as many`);
    return at;
  }

  #put(values) {
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    const at = this.#allocate(bytes.length);
    new Uint8Array(this.#calls.memory.buffer).set(bytes, at);
    return at;
  }

  #tensor(which, index, names) {
    const at = this.#allocate(28);
    this.#calls.web_tensor(this.#model, which, index, at);
    const [number, kind, channels, height, width, copies, bytes] = new Uint32Array(this.#calls.memory.buffer, at, 7);
    this.#calls.free(at);
    if (!(kind in KINDS) || (which === OUTPUT && kind !== FLOAT32)) throw new DuoError("the model is of a newer release");
    const name = String(names[number] ?? `tensor ${number}`);
    return { name, number, kind: KINDS[kind], channels, height, width, copies, bytes };
  }

  #json() {
    const at = this.#allocate(4);
    const from = this.#calls.web_metadata(this.#model, at);
    const size = new Uint32Array(this.#calls.memory.buffer, at, 1)[0];
    try {
      const all = JSON.parse(new TextDecoder().decode(new Uint8Array(this.#calls.memory.buffer, from, size)));
      return all !== null && typeof all === "object" ? all : {};
    } catch {
      return {}; // nothing in it is needed to run the model
    }
  }

  #text(at) {
    const bytes = new Uint8Array(this.#calls.memory.buffer, at);
    return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
  }

  #error() {
    return this.#text(this.#calls.web_error());
  }
}

const sizeOf = ({ channels, height, width }) => channels * height * width;

// From memory, pixel by pixel, to C × H × W.
function bitsOf({ channels, height, width, copies }, raw) {
  const pixels = height * width, each = channels / copies, bytes = Math.ceil(each / 8);
  const out = new Uint8Array(channels * pixels);
  for (let c = 0; c < channels; c++) {
    const byte = Math.floor(c / each) * bytes + ((c % each) >> 3), bit = (c % each) & 7;
    for (let p = 0; p < pixels; p++) out[c * pixels + p] = (raw[p * copies * bytes + byte] >> bit) & 1;
  }
  return out;
}

// What a tensor's numbers are in JavaScript: pixels from 0 to 255 where the model normalises them by itself.
const typeOf = ({ kind }) => (kind === "uint8" ? Uint8Array : Float32Array);

function valuesOf(tensor, raw) {
  const { channels, height, width } = tensor, type = typeOf(tensor);
  const pixels = height * width, values = new type(raw.slice().buffer), out = new type(values.length);
  for (let c = 0; c < channels; c++) for (let p = 0; p < pixels; p++) out[c * pixels + p] = values[p * channels + c];
  return out;
}
