/* Softmax over the incoming edges of every node, and the weighted sum of values, forward and backward.
 *
 * Edges are sorted by target; `offsets` says where each target's edges begin, `source` whom they come from. Rows hold
 * `heads` vectors of `dim` numbers. `kept`, if there, multiplies the weights as they meet the values (dropout). Threads take
 * ranges of nodes and write only there; each has some of the `room` for itself.
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
