// The page that `binaryduo web` writes: a picture in, the network's answer and its activations out. What this script reads
// of the page's own data is `data`; `load` comes from the npm package, which stands above it.
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};
const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const kilobytes = (bytes) => (bytes < 1e6 ? `${(bytes / 1e3).toFixed(0)} KB` : `${(bytes / 1e6).toFixed(1)} MB`);

const model = await load(decode(data.model), { engine: decode(data.wasm), name: data.name }).catch((error) => {
  $("problem").textContent = error.message;
  $("problem").hidden = false;
  throw error;
});
globalThis.binaryduo = { model, load };
const { channels, height, width } = model.inputs[0];
const answers = model.outputs[0], classifies = answers.height * answers.width === 1;

// ---- The picture: drawn large, seen by the network in its own size ----
const scale = Math.max(1, Math.floor(320 / Math.max(width, height)));
const canvas = $("canvas"), pen = canvas.getContext("2d", { willReadFrequently: true });
canvas.width = width * scale;
canvas.height = height * scale;
const small = new OffscreenCanvas(width, height), eye = small.getContext("2d", { willReadFrequently: true });

function blank() {
  pen.fillStyle = "#000";
  pen.fillRect(0, 0, canvas.width, canvas.height);
}

// The picture as the network was trained on it: C × H × W, normalised.
function pixels() {
  eye.imageSmoothingQuality = "high";
  eye.drawImage(canvas, 0, 0, width, height);
  const rgba = eye.getImageData(0, 0, width, height).data, size = width * height;
  const bytes = model.inputs[0].kind === "uint8", out = new (bytes ? Uint8Array : Float32Array)(channels * size);
  for (let p = 0; p < size; p++) {
    const [r, g, b] = [rgba[4 * p], rgba[4 * p + 1], rgba[4 * p + 2]];
    const values = channels === 1 ? [0.299 * r + 0.587 * g + 0.114 * b] : [r, g, b];
    for (let c = 0; c < channels; c++)
      out[c * size + p] = bytes ? Math.round(values[c]) : (values[c] / 255 - data.mean[c]) / data.std[c];
  }
  return out;
}

// Fills the canvas with the middle of a picture.
async function show(source) {
  let picture;
  try {
    picture = await createImageBitmap(source);
  } catch {
    $("problem").textContent = "This file cannot be read as a picture: try a PNG, JPEG or WebP.";
    $("problem").hidden = false;
    return;
  }
  $("problem").hidden = true;
  const factor = Math.max(canvas.width / picture.width, canvas.height / picture.height);
  const [w, h] = [picture.width * factor, picture.height * factor];
  blank();
  pen.imageSmoothingEnabled = picture.width > width; // one that is as small as the network's own stays sharp
  pen.imageSmoothingQuality = "high";
  pen.drawImage(picture, (canvas.width - w) / 2, (canvas.height - h) / 2, w, h);
  update();
}

let last = null;
function stroke(event) {
  const box = canvas.getBoundingClientRect();
  const [x, y] = [((event.clientX - box.left) / box.width) * canvas.width, ((event.clientY - box.top) / box.height) * canvas.height];
  pen.strokeStyle = $("ink").value;
  pen.lineWidth = canvas.width / 13;
  pen.lineCap = pen.lineJoin = "round";
  pen.beginPath();
  pen.moveTo(...(last ?? [x, y]));
  pen.lineTo(x, y);
  pen.stroke();
  last = [x, y];
  update();
}
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  last = null;
  stroke(event);
});
canvas.addEventListener("pointermove", (event) => event.buttons && stroke(event));
$("clear").onclick = () => (blank(), update());
$("invert").onclick = () => {
  pen.globalCompositeOperation = "difference";
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.globalCompositeOperation = "source-over";
  update();
};
$("ink-label").hidden = channels === 1;
$("open").onclick = () => $("file").click();
$("file").onchange = () => $("file").files[0] && show($("file").files[0]);
document.addEventListener("paste", (event) => event.clipboardData.files[0] && show(event.clipboardData.files[0]));
document.addEventListener("dragover", (event) => (event.preventDefault(), canvas.classList.add("over")));
document.addEventListener("dragleave", () => canvas.classList.remove("over"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  canvas.classList.remove("over");
  if (event.dataTransfer.files[0]) show(event.dataTransfer.files[0]);
});
for (const { name, png } of data.examples) {
  const button = make("button"), image = make("img");
  button.type = "button";
  image.src = `data:image/png;base64,${png}`;
  image.alt = button.title = name;
  button.append(image);
  button.onclick = () => show(new Blob([decode(png)], { type: "image/png" }));
  $("examples").append(button);
}

// ---- The answer ----
const names = Array.from({ length: answers.channels }, (_, i) => data.classes[i] ?? `class ${i}`);

function showAnswer(logits) {
  if (!classifies) return;
  const top = Math.max(...logits), powers = Array.from(logits, (v) => Math.exp(v - top));
  const sum = powers.reduce((a, b) => a + b), order = names.map((_, i) => i).sort((a, b) => powers[b] - powers[a]);
  $("classes").replaceChildren(
    ...order.slice(0, 10).map((i, place) => {
      const line = make("li", place ? "" : "first"), bar = make("div", "bar"), fill = make("div");
      fill.style.width = `${(100 * powers[i]) / sum}%`;
      bar.append(fill);
      line.append(make("span", "name", names[i]), bar, make("span", "share", `${((100 * powers[i]) / sum).toFixed(1)} %`));
      return line;
    }),
  );
}

function fact(name, value, note) {
  const box = make("div"), dd = make("dd", "", value);
  if (note) dd.append(make("small", "", note));
  box.append(make("dt", "", name), dd);
  $("facts").append(box);
  return dd;
}
const layers = model.tensors.filter((t) => t.kind === "bits");
fact("Size of the file", kilobytes(model.bytes), data.floatBytes > model.bytes ? `as floats: ${kilobytes(data.floatBytes)}` : "");
const time = fact("One picture takes", "…");
fact("Layers of bits", String(layers.length), `${layers.reduce((n, t) => n + t.channels * t.height * t.width, 0).toLocaleString("en")} bits a picture`);
fact("The network sees", `${width} × ${height}`, channels === 1 ? "shades of grey" : `${channels} colours`);

const middleOf = (times) => [...times].sort((a, b) => a - b)[times.length >> 1];
const shownTime = (ms) => `${ms < 10 ? ms.toFixed(2) : ms.toFixed(1)} ms`;
const recent = [];
function timed(image) {
  const start = performance.now();
  let result, runs = 0;
  do result = model.run(image), runs++;
  while (performance.now() - start < 2); // browsers' clocks tick ten times a millisecond
  recent.push((performance.now() - start) / runs);
  if (recent.length > 31) recent.shift();
  time.firstChild.data = shownTime(middleOf(recent));
  return result;
}

// ---- The activations ----
const colour = (name) => {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
};

// Channels side by side, one pixel a bit and one between the channels; CSS makes them larger.
function mosaic(activation, first, count, room) {
  const { width: w, height: h, values } = activation, zoom = w * h === 1 ? 9 : Math.max(1, Math.round(42 / w));
  const gap = w * h === 1 ? 0 : 1;
  const across = Math.max(1, Math.min(count, Math.floor((room / zoom + gap) / (w + gap)))), down = Math.ceil(count / across);
  const out = make("canvas"), [W, H] = [across * (w + gap) - gap, down * (h + gap) - gap];
  out.width = W;
  out.height = H;
  out.style.width = `${W * zoom}px`;
  const image = new ImageData(W, H), shades = [colour("--zero"), colour("--accent")];
  for (let c = 0; c < count; c++) {
    const [left, top] = [(c % across) * (w + gap), Math.floor(c / across) * (h + gap)];
    for (let y = 0; y < h; y++)
      for (let x = 0; x < w; x++) {
        const bit = values[((first + c) * h + y) * w + x], at = 4 * ((top + y) * W + left + x);
        image.data.set([...shades[bit], 255], at);
      }
  }
  out.getContext("2d").putImageData(image, 0, 0);
  return out;
}

function showLayers(image) {
  const room = $("layers").clientWidth, parts = [];
  let number = 0;
  for (const activation of model.trace(image)) {
    if (activation.kind !== "bits") continue;
    const { channels: c, height: h, width: w, copies, values, operation } = activation;
    const part = make("div", "layer"), ones = values.reduce((a, b) => a + b, 0) / values.length;
    part.append(make("h3", "", `${++number}. ${operation}`));
    const size = w * h === 1 ? `${c} bits` : `${c} channels of ${w} × ${h}`;
    part.append(make("p", "about", `${size}; ${(100 * ones).toFixed(0)} % are one`));
    for (let copy = 0; copy < copies; copy++) {
      if (copies > 1) part.append(make("p", "copy", `copy ${copy + 1}`));
      part.append(mosaic(activation, (copy * c) / copies, c / copies, room));
    }
    parts.push(part);
  }
  $("layers").replaceChildren(...parts);
}
$("explain").textContent =
  "Each tile is one channel of a layer; a coloured point is a one." +
  (layers.some((t) => t.copies > 1)
    ? " The copies of a layer are the same sums compared with different thresholds: that is how BinaryDuo writes one activation of three levels as two of one bit."
    : "");
if (!classifies) $("answer-title").textContent = "The network";

let waiting = false;
function update() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const image = pixels();
    showAnswer(timed(image));
    showLayers(image);
  });
}
addEventListener("resize", update);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);

blank();
const none = pixels();
for (const end = performance.now() + 120; performance.now() < end; ) model.run(none); // until the browser has compiled it well
if (data.examples.length) await show(new Blob([decode(data.examples[0].png)], { type: "image/png" }));
const first = pixels();
for (let i = 0; i < 15; i++) timed(first);
update();
requestAnimationFrame(() => requestAnimationFrame(() => (document.documentElement.dataset.ready = "yes")));
