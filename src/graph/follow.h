/* follow.h - a task, and what comes after it or before it. */
#ifndef GRAPH_FOLLOW_H
#define GRAPH_FOLLOW_H

#include "graph/model.h"

/* Marks the node and what follows it in its scope, with everything inside of groups. `marks` has a byte per node. */
void graph_follow(const struct graph *graph, uint32_t first, uint8_t *marks);
/* The same, and what follows the groups around it: what `--start` runs. */
void graph_follow_out(const struct graph *graph, uint32_t first, uint8_t *marks);
/* Marks these nodes and all that must have ended before them, in their scopes and those around; of a group all that is inside. Of the
 * groups around a node, the other branches are not needed. */
void graph_need(const struct graph *graph, const uint32_t *last, size_t count, uint8_t *marks);

#endif
