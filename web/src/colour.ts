/** Colour maps, and the normalisation of weights. */

export type Scale = "root" | "linear" | "log";

export const SCALES: { value: Scale; label: string }[] = [
  { value: "root", label: "square root" },
  { value: "linear", label: "linear" },
  { value: "log", label: "log (4 decades)" },
];

const DECADES = 4; // a log scale covers the largest weight down to 1 / 10,000 of it

export const RAMPS = {
  light: ["#fffdf8", "#fdecc4", "#f8c96b", "#e8962a", "#b45f06", "#6e3404", "#2f1602"],
  dark: ["#191a20", "#3a2410", "#6e3f0e", "#b46a12", "#ee9d2b", "#ffd07a", "#fff6dc"],
};

/** For negative values: gradients and differences. */
export const COLD = {
  light: ["#fffdf8", "#d3e6ee", "#9cc9da", "#5aa2bd", "#2a7592", "#134a62", "#06212e"],
  dark: ["#191a20", "#0f2a38", "#124a63", "#1b7397", "#41a3c9", "#8fd0ea", "#e2f5fd"],
};

/** Normalised position of a weight between 0 and `top`. */
export function place(w: number, top: number, scale: Scale): number {
  if (!(w > 0) || !(top > 0)) return 0;
  const share = w / top;
  if (share >= 1) return 1;
  if (scale === "linear") return share;
  if (scale === "root") return Math.sqrt(share);
  return Math.max(0, 1 + Math.log10(share) / DECADES);
}

/** Inverse of `place`: the tick labels of a legend. */
export function weightAt(x: number, top: number, scale: Scale): number {
  if (scale === "linear") return x * top;
  if (scale === "root") return x * x * top;
  return top * 10 ** (DECADES * (x - 1));
}

function channels(hex: string): [number, number, number] {
  const x = parseInt(hex.slice(1), 16);
  return [x >> 16, (x >> 8) & 255, x & 255];
}

/** 256 colours in canvas memory order (ABGR). */
export function palette(stops: string[]): Uint32Array {
  const made = new Uint32Array(256);
  const parts = stops.map(channels);
  for (let x = 0; x < 256; x++) {
    const at = (x / 255) * (parts.length - 1);
    const low = Math.min(parts.length - 2, Math.floor(at));
    const mix = [0, 1, 2].map((c) => Math.round(parts[low][c] + (at - low) * (parts[low + 1][c] - parts[low][c])));
    made[x] = (255 << 24) | (mix[2] << 16) | (mix[1] << 8) | mix[0];
  }
  return made;
}

/** Format a weight: four decimals, scientific below 0.001. */
export function written(w: number): string {
  if (w === 0) return "0";
  if (w < 0) return `−${written(-w)}`;
  if (w < 0.001) return w.toExponential(2).replace("e-", "e−");
  return w.toFixed(4);
}

/** The same with an explicit sign, for differences. */
export function signed(w: number): string {
  return w > 0 ? `+${written(w)}` : written(w);
}

/** Cold below 0, warm above: 256 colours, 0 in the middle. */
export function diverging(dark: boolean): Uint32Array {
  const [warm, cold] = dark ? [RAMPS.dark, COLD.dark] : [RAMPS.light, COLD.light];
  return palette([...cold.slice(1).reverse(), ...warm]);
}

export const HEAD_COLOURS = [
  "#c9720c", "#2f7d95", "#7a4fa3", "#3f8f4f", "#c2453d", "#6b7a1f", "#b1498a", "#4467b8", "#8a6d3b", "#1f8a7a",
  "#a85a2a", "#7b8794",
];
