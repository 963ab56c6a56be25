// The views in order of worth; each is present where a record has what it needs.
//
// A view is {name, key, supports(app), fits(stream, app), create(app)}. What `create` returns has `element` and, if it
// needs them, update(changed), close(), key(event), zoom(by) and shown(). `key` is a letter that no other view has. Its tab
// and its first sentence are view_NAME and lead_NAME in words.js. relations.js is a short example.

import { matrixView } from "./matrix.js";
import { headsView } from "./heads.js";
import { linesView } from "./lines.js";
import { playView } from "./play.js";
import { pictureView } from "./picture.js";
import { stepsView } from "./steps.js";
import { graphView } from "./graph.js";
import { compareView } from "./compare.js";
import { relationsView } from "./relations.js";
import { differenceView } from "./difference.js";

export const VIEWS = [
  matrixView,
  headsView,
  linesView,
  playView,
  pictureView,
  stepsView,
  graphView,
  compareView,
  relationsView,
  differenceView,
];
