/** The components of Regard. Each works alone with a store, or on <regard-page> with what the file carries. */

import { RegardGraph } from "./graph";
import { RegardHeads } from "./heads";
import { RegardImage } from "./image";
import { RegardLines } from "./lines";
import { RegardMap } from "./map";
import { RegardPage } from "./page";
import { RegardSteps } from "./steps";
import { RegardText } from "./text";

export { MapData } from "./data";
export { Store } from "./store";
export { embedded } from "./page";
export { render } from "./notebook";

const parts: [string, CustomElementConstructor][] = [
  ["regard-map", RegardMap], ["regard-heads", RegardHeads], ["regard-lines", RegardLines], ["regard-text", RegardText],
  ["regard-steps", RegardSteps], ["regard-graph", RegardGraph], ["regard-image", RegardImage], ["regard-page", RegardPage],
];
for (const [name, part] of parts) if (!customElements.get(name)) customElements.define(name, part);
