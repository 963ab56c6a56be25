// The views in order of worth; each is present where a record has what it needs.

import { matrixView } from "./matrix.js";
import { headsView } from "./heads.js";

export const VIEWS = [matrixView, headsView];
