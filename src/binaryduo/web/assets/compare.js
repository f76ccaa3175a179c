// The part of the page that `binaryduo web --compare` adds: ONNX Runtime Web runs the full-precision network on the same
// picture, on one thread. `compared` comes from the file compare.js beside the page, the helpers from the script above.
const peers = [];
const table = $("compare-rows");

function row(name, bytes) {
  const line = make("tr"), cells = [make("th", "", name), make("td", "", kilobytes(bytes)), make("td", "", "…"), make("td", "", "")];
  cells[0].scope = "row";
  line.append(...cells);
  table.append(line);
  return { time: cells[2], ratio: cells[3], recent: [] };
}
const ours = row("binaryduo, this file", model.bytes);

async function startPeers() {
  const { ort: source, wasm, networks, shape } = globalThis.compared;
  const address = URL.createObjectURL(new Blob([decode(source)], { type: "text/javascript" }));
  const ort = await import(address);
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = decode(wasm).buffer;
  for (const { name, onnx } of networks) {
    const bytes = decode(onnx), session = await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] });
    const run = (image) => session.run({ [session.inputNames[0]]: new ort.Tensor("float32", image, [1, ...shape]) });
    for (let i = 0; i < 3; i++) await run(new Float32Array(channels * height * width)); // for the browser's compiler
    peers.push({ ...row(name, bytes.length), run });
  }
}

let comparing = false;
async function compareNow() {
  if (comparing) return;
  comparing = true;
  const image = pixels();
  // Each engine once in turn, so that other work on the machine meets all alike.
  for (const one of [{ ...ours, run: async () => model.run(image) }, ...peers]) {
    const start = performance.now();
    let runs = 0;
    do await one.run(image), runs++;
    while (performance.now() - start < 4); // browsers' clocks tick ten times a millisecond
    one.recent.push((performance.now() - start) / runs);
    if (one.recent.length > 31) one.recent.shift();
    one.time.textContent = shownTime(middleOf(one.recent));
  }
  const base = middleOf(ours.recent);
  for (const peer of peers) peer.ratio.textContent = `${(middleOf(peer.recent) / base).toFixed(1)} × as long`;
  comparing = false;
}
await startPeers()
  .then(async () => {
    for (let i = 0; i < 9; i++) await compareNow();
    new MutationObserver(compareNow).observe($("layers"), { childList: true }); // whenever the picture has changed
  })
  .catch((error) => {
    $("problem").textContent = `ONNX Runtime Web did not start: ${error.message}`;
    $("problem").hidden = false;
  });
