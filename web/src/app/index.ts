/** The web application: the page components, and those that talk to the server. */

import "../index";
import { RegardApp } from "./app";
import { RegardLive } from "./live";
import { RegardRecords } from "./record_list";
import { RegardOutput } from "./output_diff";
import { RegardWhy } from "./why";

const parts: [string, CustomElementConstructor][] = [
  ["regard-records", RegardRecords], ["regard-output", RegardOutput], ["regard-why", RegardWhy], ["regard-live", RegardLive], ["regard-app", RegardApp],
];
for (const [name, part] of parts) customElements.define(name, part);
