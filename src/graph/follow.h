/* follow.h - a task, and what comes after it. */
#ifndef GRAPH_FOLLOW_H
#define GRAPH_FOLLOW_H

#include "graph/model.h"

/* Marks the node and what follows it in its scope, with everything inside of groups. `marks` has a byte per node. */
void graph_follow(const struct graph *graph, uint32_t first, uint8_t *marks);

#endif
