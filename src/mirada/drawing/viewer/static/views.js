// The views in order of worth; each is present where a record has what it needs.

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
