// Runs package checker in a thread of its own: gets its program once, compressed and in
// base64, and texts to begin with; then lists of texts with an id each, and answers each with the report.
const bytes = (text) => {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text), out = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) out[i] = binary.charCodeAt(i);
  return out;
};

const load = async (program) => {
  const go = new Go();
  const plain = new Response(bytes(program)).body.pipeThrough(new DecompressionStream("gzip"));
  const answer = new Response(plain, { headers: { "Content-Type": "application/wasm" } });
  const { instance } = await WebAssembly.instantiateStreaming(answer, go.importObject);
  go.run(instance); // until the page ends; it defines checkReceipt before it first waits
};

onmessage = async ({ data }) => {
  try {
    if (data.program) {
      await load(data.program);
      checkReceipt(data.texts);
      postMessage({ ready: true });
    } else {
      const begin = performance.now();
      const report = checkReceipt(data.texts);
      postMessage({ id: data.id, report, took: performance.now() - begin });
    }
  } catch (error) {
    postMessage({ id: data.id, error: String(error) });
  }
};
