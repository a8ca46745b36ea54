/** The web application: the components, and those that talk to the server. */

import "../index";
import { RegardApp } from "./app";
import { RegardLive } from "./live";
import { RegardShelf } from "./shelf";
import { RegardTold } from "./told";

const parts: [string, CustomElementConstructor][] = [
  ["regard-shelf", RegardShelf], ["regard-told", RegardTold], ["regard-live", RegardLive], ["regard-app", RegardApp],
];
for (const [name, part] of parts) customElements.define(name, part);
