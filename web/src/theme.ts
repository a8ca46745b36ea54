/** Shared colours and fonts; light or dark by the system, or as the page says. */

import { css } from "lit";

export const theme = css`
  :host {
    --paper: #faf8f4; --raised: #ffffff; --ink: #1d1f25; --soft: #5d606b; --line: #e0dacd; --glow: #a85605; --mark: #d9770a; --cold: #2a7592;
    --serif: "Iowan Old Style", "Palatino Linotype", Palatino, "Book Antiqua", Georgia, serif;
    --sans: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Noto Sans", sans-serif;
    display: block; color: var(--ink); font: 0.9375rem/1.45 var(--sans); box-sizing: border-box;
  }
  @media (prefers-color-scheme: dark) {
    :host {
      --paper: #14151a; --raised: #1c1e25; --ink: #ece9e2; --soft: #a9acb6; --line: #343843; --glow: #ffb648; --mark: #ffb648; --cold: #41a3c9;
    }
  }
  :host([hidden]) { display: none; } :host([plain]) .bar { display: none; } /* a component alone in a text, without its controls */
  *, *::before, *::after { box-sizing: border-box; }
  button, select, input { font: inherit; color: inherit; accent-color: var(--mark); }
  button, select { background: var(--raised); border: 1px solid var(--line); border-radius: 0.4rem; padding: 0.2rem 0.55rem; }
  button { cursor: pointer; } button:hover { border-color: var(--mark); }
  button[aria-pressed="true"] { border-color: var(--mark); color: var(--glow); font-weight: 600; }
  :focus-visible { outline: 2px solid var(--mark); outline-offset: 2px; }
  .bar { display: flex; flex-wrap: wrap; gap: 0.4rem 0.9rem; align-items: center; margin: 0 0 0.5rem; }
  [hidden] { display: none !important; }
  .bar label { display: inline-flex; gap: 0.4rem; align-items: center; color: var(--soft); font-size: 0.85rem; max-width: 100%; } .bar select { min-width: 0; max-width: 100%; text-overflow: ellipsis; } .bar .value { white-space: nowrap; }
  .savers { margin-left: auto; display: inline-flex; gap: 0.2rem; } .savers button { font-size: 0.75rem; padding: 0.1rem 0.4rem; color: var(--soft); }
  canvas { display: block; }
  .quiet { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
`;

export interface Inks {
  paper: string;
  raised: string;
  ink: string;
  soft: string;
  line: string;
  mark: string;
  dark: boolean;
}

export const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;

/** The CSS colours of a component, for drawing on canvas. */
export function inks(of: Element): Inks {
  const style = getComputedStyle(of);
  const read = (name: string) => style.getPropertyValue(`--${name}`).trim() || "#888";
  return {
    paper: read("paper"), raised: read("raised"), ink: read("ink"), soft: read("soft"), line: read("line"),
    mark: read("mark"), dark: isDark(),
  };
}

export const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, 'Noto Sans', sans-serif";

/** Size a canvas for the device pixel ratio; drawing is in CSS pixels. */
export function sharpen(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = devicePixelRatio || 1;
  const w = Math.max(1, Math.round(width * ratio));
  const h = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
