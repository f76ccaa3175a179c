/** Packed binary networks in browsers and in Node. Files are made by `binaryduo pack`; docs/format.md describes them. */

/** What went wrong, in one sentence: the file is damaged, an array has the wrong length, the browser is too old. */
export class DuoError extends Error {}

/** A tensor of the network, for one image. */
export interface Tensor {
  readonly name: string;
  /** Among `Model.tensors`. */
  readonly number: number;
  /** "uint8" is an input of pixels from 0 to 255, which the model normalises by itself. */
  readonly kind: "float32" | "bits" | "uint8";
  readonly channels: number;
  readonly height: number;
  readonly width: number;
  /** Decoupled channels come in this many copies, one block after the other. */
  readonly copies: number;
  /** In the engine's memory. */
  readonly bytes: number;
}

/** What one operation wrote: C × H × W values; bits are zeros and ones. */
export interface Activation extends Tensor {
  /** The operation's name; "input" for the image itself. */
  readonly operation: string;
  readonly values: Uint8Array | Float32Array;
}

/** Normalised numbers, or pixels where the model's input is of the kind "uint8". */
export type Images = Float32Array | Uint8Array;

export interface LoadOptions {
  /** The engine, where `engine.wasm` does not lie beside the script (in a bundle, say): its address, bytes or module. */
  engine?: string | URL | Response | Blob | ArrayBuffer | Uint8Array | WebAssembly.Module;
  /** What errors call the file; its address by default. */
  name?: string;
  /** Refuse images with NaN or infinite numbers, which would get a confident answer. Default: true. */
  checkFinite?: boolean;
}

export interface Model {
  readonly inputs: readonly Tensor[];
  readonly outputs: readonly Tensor[];
  readonly tensors: readonly Tensor[];
  /** Names, in the order in which they run. */
  readonly operations: readonly string[];
  /** The names of the classes; empty where the file has none. */
  readonly classes: readonly string[];
  /** What the file says about itself: `model`, `classes`, `mean`, `std`, … */
  readonly meta: Readonly<Record<string, string>>;
  /** The size of the file. */
  readonly bytes: number;
  /** The engine's version. */
  readonly version: string;

  /**
   * The results of N images: N × C × H × W numbers in, N × C × H × W numbers out (N × classes for a classifier).
   *
   *     const logits = model.run(new Float32Array(1 * 28 * 28));
   *
   * A model with several inputs takes as many arrays; one with several outputs returns an array of them.
   * Throws DuoError where the numbers are too few, too many or not finite.
   */
  run(...images: Images[]): Float32Array;
  run(...images: Images[]): Float32Array | Float32Array[];

  /** Every activation of one image, in the order in which they are computed: for looking inside. */
  trace(...image: Images[]): Activation[];

  /** Gives the engine's memory back; the model cannot be used after it. */
  close(): void;
}

/**
 * Opens a packed model: an address (in Node also a path), or its bytes. Every checksum is verified and every length and
 * number checked before anything is used; a damaged file is refused with a DuoError that says what is wrong.
 */
export function load(
  source: string | URL | Response | Blob | ArrayBuffer | Uint8Array,
  options?: LoadOptions,
): Promise<Model>;
