/** A canvas-like context that emits SVG. */

/** The canvas calls that drawings use. */
export type Pen = Pick<CanvasRenderingContext2D, "beginPath" | "moveTo" | "bezierCurveTo" | "stroke" | "fillText" | "fillRect" | "setLineDash" | "measureText"> &
  Pick<CanvasRenderingContext2D, "strokeStyle" | "fillStyle" | "globalAlpha" | "lineWidth" | "lineCap" | "font" | "textAlign" | "textBaseline">;

/** Escape for XML; forbidden characters are replaced. */
export function escaped(text: string): string {
  const legal = text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
  return legal.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

const round = (x: number) => Number(x.toFixed(2));

export class SvgPen implements Pen {
  strokeStyle: string | CanvasGradient | CanvasPattern = "#000";
  fillStyle: string | CanvasGradient | CanvasPattern = "#000";
  globalAlpha = 1;
  lineWidth = 1;
  lineCap: CanvasLineCap = "butt";
  font = "12px sans-serif";
  textAlign: CanvasTextAlign = "left";
  textBaseline: CanvasTextBaseline = "alphabetic";
  private dash: Iterable<number> = [];
  private path = "";
  private parts: string[] = [];

  constructor(
    readonly width: number,
    readonly height: number,
    private measure: (text: string, font: string) => TextMetrics = measured,
  ) {}

  private get alpha(): string {
    return this.globalAlpha === 1 ? "" : ` opacity="${round(this.globalAlpha)}"`;
  }

  setLineDash(dash: Iterable<number>): void {
    this.dash = dash;
  }

  beginPath(): void {
    this.path = "";
  }

  moveTo(x: number, y: number): void {
    this.path += `M${round(x)} ${round(y)}`;
  }

  bezierCurveTo(...at: [number, number, number, number, number, number]): void {
    this.path += `C${at.map(round).join(" ")}`;
  }

  stroke(): void {
    const dash = [...this.dash].join(" ");
    this.parts.push(`<path d="${this.path}" fill="none" stroke="${escaped(String(this.strokeStyle))}" stroke-width="${round(this.lineWidth)}"${dash ? ` stroke-dasharray="${dash}"` : ""}${this.alpha}/>`);
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    this.parts.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}" fill="${escaped(String(this.fillStyle))}"${this.alpha}/>`);
  }

  fillText(text: string, x: number, y: number): void {
    const anchor = { left: "start", start: "start", center: "middle", right: "end", end: "end" }[this.textAlign];
    const line = this.textBaseline === "middle" ? ' dominant-baseline="central"' : "";
    this.parts.push(`<text x="${round(x)}" y="${round(y)}" style="font: ${escaped(this.font)}; white-space: pre" fill="${escaped(String(this.fillStyle))}" text-anchor="${anchor}"${line}${this.alpha}>${escaped(text)}</text>`);
  }

  measureText(text: string): TextMetrics {
    return this.measure(text, this.font);
  }

  toString(): string {
    const size = `width="${round(this.width)}" height="${round(this.height)}" viewBox="0 0 ${round(this.width)} ${round(this.height)}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size}>\n${this.parts.join("\n")}\n</svg>\n`;
  }
}

function measured(text: string, font: string): TextMetrics {
  const context = document.createElement("canvas").getContext("2d")!;
  context.font = font;
  return context.measureText(text);
}

/** A colour as CSS computes it, in the form that every reader of SVG knows, and its alpha. */
export function coloured(css: string): [string, number] {
  const parts = (css.match(/-?[\d.]+(e-?\d+)?/g) ?? []).map(Number);
  if (css.startsWith("color(srgb")) return [`rgb(${parts.slice(0, 3).map((x) => Math.round(255 * x)).join(",")})`, parts[3] ?? 1];
  if (css.startsWith("rgb")) return [`rgb(${parts.slice(0, 3).join(",")})`, parts[3] ?? 1];
  return [css, css === "transparent" ? 0 : 1];
}

/** Running text of the page as SVG, at its position: background and glyphs of each span. */
export function drawnText(boxes: Element[], paper: string): SvgPen {
  const all = boxes.map((box) => box.getBoundingClientRect());
  const [left, top] = [Math.min(...all.map((b) => b.left)), Math.min(...all.map((b) => b.top))];
  const high = boxes.reduce((x, box, at) => Math.max(x, all[at].top - top + box.scrollHeight), 0);
  const pen = new SvgPen(Math.max(...all.map((b) => b.right)) - left + 16, high + 16);
  pen.fillStyle = paper;
  pen.fillRect(0, 0, pen.width, pen.height);
  pen.textBaseline = "middle";
  for (const box of boxes)
    for (const span of box.querySelectorAll<HTMLElement>("span, small")) {
      const style = getComputedStyle(span);
      const rects = [...span.getClientRects()];
      for (const rect of rects) {
        const [x, y] = [rect.left - left + 8, rect.top - top + box.scrollTop + 8];
        const [colour, alpha] = coloured(style.backgroundColor);
        if (alpha === 0) continue;
        pen.fillStyle = colour;
        pen.globalAlpha = alpha * Number(style.opacity);
        pen.fillRect(x, y, rect.width, rect.height);
      }
      if (!rects.length) continue;
      pen.fillStyle = style.color;
      pen.globalAlpha = Number(style.opacity);
      pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
      const padding = parseFloat(style.paddingLeft) || 0;
      pen.fillText(span.textContent ?? "", rects[0].left - left + 8 + padding, rects[0].top - top + box.scrollTop + 8 + rects[0].height / 2);
    }
  return pen;
}
