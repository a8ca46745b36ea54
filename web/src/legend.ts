/** Colour bar. */

import { css, html, nothing, type TemplateResult } from "lit";
import { COLD, RAMPS, signed, weightAt, written, type Scale } from "./colour";
import type { CellValue } from "./raster";
import { isDark } from "./theme";

export const legendStyle = css`
  .legend { display: inline-flex; align-items: center; gap: 0.4rem; color: var(--soft); font-size: 0.8rem; font-variant-numeric: tabular-nums; }
  .legend i { display: block; width: 11rem; height: 0.7rem; border-radius: 0.2rem; border: 1px solid var(--line); }
  .scale { display: grid; grid-template-columns: auto auto auto; width: 11rem; justify-content: space-between; font-size: 0.7rem; white-space: nowrap; }
  .ramp { display: grid; gap: 1px; }
  .legend .masked { width: 1.6rem; background: repeating-linear-gradient(-45deg, var(--paper) 0 4px, var(--line) 4px 5.5px); }
`;

export interface Legend {
  top: number;
  scale: Scale;
  cellValue?: CellValue;
  size?: number; // weights along the side of a drawn cell
  below?: boolean; // whether there are negative weights
  clipped?: boolean; // whether a column is excluded from the scale, so that colours clip
  ramp?: string[]; // by default that of the theme
  what: string; // "weight", or what is subtracted from what
  restricted?: boolean; // whether there are masked pairs
  masked?: string; // and their label
}

export function legend(of: Legend): TemplateResult {
  const [warm, cold] = isDark() ? [RAMPS.dark, COLD.dark] : [RAMPS.light, COLD.light];
  const ramp = (of.below ? [...cold.slice(1).reverse(), ...warm] : (of.ramp ?? warm)).join(", ");
  const most = of.cellValue === "mean" ? "mean" : of.below ? "largest-magnitude" : "maximum";
  const what = of.size && of.size > 1 ? `${most} ${of.what} per ${of.size} × ${of.size} cell` : of.what;
  const least = of.below ? signed(-of.top) : of.scale === "log" ? `≤ ${written(weightAt(0, of.top, "log"))}` : "0";
  const middle = of.below ? "0" : written(weightAt(0.5, of.top, of.scale));
  const top = of.below ? signed(of.top) : written(of.top);
  return html`<span class="legend" role="img" aria-label=${`Colours from ${of.below ? least : "0"} to ${top}: ${what}`}><span class="ramp">
      <i style=${`background: linear-gradient(to right, ${ramp})`}></i>
      <span class="scale"><span>${least}</span><span>${middle}</span><span>${of.clipped ? "≥ " : ""}${top}</span></span></span>${what}</span>
    ${of.restricted ? html`<span class="legend"><i class="masked"></i>${of.masked}</span>` : nothing}`;
}
