/* render.h - a graph as a picture: ASCII for a terminal, Mermaid, dot, SVG, JSON. Groups are drawn with their fork and join. */
#ifndef GRAPH_RENDER_H
#define GRAPH_RENDER_H

#include "base/buf.h"
#include "base/json.h"
#include "graph/model.h"

void render_ascii(const struct graph *graph, struct buf *out);
void render_mermaid(const struct graph *graph, const char *title, struct buf *out);
void render_dot(const struct graph *graph, const char *title, struct buf *out);
void render_svg(const struct graph *graph, const char *title, struct buf *out);
json_t *render_json(const struct graph *graph, const char *title);

void render_policy(const struct graph_group *group, struct buf *out); /* "strict", "at_least 2" */

#endif
