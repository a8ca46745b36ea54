/** Array encoding of a page: base64 of gzip of byte planes. */

export interface Blob64 {
  blob: number;
  type: "f32" | "f16" | "bf16" | "u8" | "u16" | "u32";
  shape: number[];
}

export type Numbers = Float32Array | Uint8Array | Uint16Array | Uint32Array;

const SIZE = { f32: 4, f16: 2, bf16: 2, u8: 1, u16: 2, u32: 4 } as const;

export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const raw = atob(text);
  const made = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) made[i] = raw.charCodeAt(i);
  return made;
}

export async function gunzip(packed: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Undo the byte planes (first bytes of all numbers, then the second ...). */
export function unplane(planes: Uint8Array, size: number): Uint8Array {
  if (size === 1) return planes;
  const count = planes.length / size;
  const made = new Uint8Array(planes.length);
  for (let b = 0; b < size; b++) for (let i = 0; i < count; i++) made[i * size + b] = planes[b * count + i];
  return made;
}

/** IEEE half precision. */
export function half(code: number): number {
  const sign = code & 0x8000 ? -1 : 1;
  const exponent = (code >> 10) & 31;
  const part = code & 1023;
  if (exponent === 0) return sign * part * 2 ** -24;
  if (exponent === 31) return part ? NaN : sign * Infinity;
  return sign * (1 + part / 1024) * 2 ** (exponent - 15);
}

export function numbersOf(bytes: Uint8Array, type: Blob64["type"]): Numbers {
  const { buffer, byteOffset, byteLength } = unplane(bytes, SIZE[type]);
  const count = byteLength / SIZE[type];
  if (type === "u8") return new Uint8Array(buffer, byteOffset, count);
  if (type === "u16") return new Uint16Array(buffer, byteOffset, count);
  if (type === "u32") return new Uint32Array(buffer, byteOffset, count);
  if (type === "f32") return new Float32Array(buffer, byteOffset, count);
  const codes = new Uint16Array(buffer, byteOffset, count);
  if (type === "f16") return Float32Array.from(codes, half);
  const wide = Uint32Array.from(codes, (code) => code << 16); // bfloat16 is the upper half of a float32
  return new Float32Array(wide.buffer);
}

/** From base64 text, or from bytes of the server. */
export async function decode(text: string | Uint8Array<ArrayBuffer>, about: Blob64): Promise<Numbers> {
  return numbersOf(await gunzip(typeof text === "string" ? bytesOf(text) : text), about.type);
}

const OCTAVES = 48;

/** The 16-bit logarithmic code of a pyramid's cells: 0 is 0, else 2^(48 (c / 65535 - 1)). */
export function logarithmic(): Float32Array {
  const table = new Float32Array(65536);
  for (let c = 1; c < 65536; c++) table[c] = 2 ** (OCTAVES * (c / 65535 - 1));
  return table;
}

/** The same with a sign: 32768 is 0, away from it 2^(48 (c / 32767 - 1)). */
export function signedLogarithmic(): Float32Array {
  const table = new Float32Array(65536);
  for (let c = 1; c <= 32767; c++) {
    table[32768 + c] = 2 ** (OCTAVES * (c / 32767 - 1));
    table[32768 - c] = -table[32768 + c];
  }
  return table;
}

/** Bits, the highest of a byte first, as 0 and 1; every head begins a byte. */
export function bitsOf(bytes: Numbers, head: number, wide: number, count: number): Float32Array {
  const made = new Float32Array(count);
  for (let x = 0; x < count; x++) made[x] = (bytes[head * wide + (x >> 3)] >> (7 - (x & 7))) & 1;
  return made;
}

/** 8 bits of a weight's root: w = top (c / 255)^2. */
export function weightOfCode(code: number, top: number): number {
  return top * (code / 255) ** 2;
}
