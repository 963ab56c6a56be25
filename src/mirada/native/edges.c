/* Softmax over the incoming edges of every node, and the weighted sum of values, forward and backward.
 *
 * Edges are sorted by target; `offsets` has the first edge of each target, `source` the source of each edge. Rows hold
 * `heads` vectors of `dim` numbers. `kept`, if given, multiplies the weights before the values (dropout). Threads take
 * ranges of nodes and write only there; each has its own part of `room`.
 */

#include <math.h>
#include <stdint.h>

#define REAL float
#define POWER expf
#define NAMED(name) name##_float
#include "edges.h"

#define REAL double
#define POWER exp
#define NAMED(name) name##_double
#include "edges.h"
