/* render_svg.c - the graph as SVG, laid out from left to right without a solver: in each scope a node is in the column
 * behind its last predecessor; a group is a box around its branches, one below the other, between its fork and its join. */
#include "base/utf8.h"
#include "graph/render.h"

#include <stdlib.h>
#include <string.h>

enum { BOX_HEIGHT = 32, GAP_X = 36, GAP_Y = 14, PAD = 14, TITLE = 20, KNOT = 12, LETTER = 8 };

struct place {
    int x, y, width, height; /* relative to its scope, then absolute */
    int column;
};

struct layout {
    const struct graph *graph;
    struct place *nodes;
    struct place *scopes;
    struct buf *out;
};

static int text_width(const char *text)
{
    return (int)utf8_width(text) * LETTER;
}

static void size_scope(struct layout *l, uint32_t scope);

static void size_node(struct layout *l, uint32_t node)
{
    struct place *place = &l->nodes[node];
    char buf[GRAPH_NAME_MAX];
    int title = text_width(graph_name(l->graph, node, buf));
    if (!graph_node(l->graph, node)->is_group) {
        place->width = title + 2 * PAD;
        place->height = BOX_HEIGHT;
        return;
    }
    const struct graph_group *group = graph_group(l->graph, graph_node(l->graph, node)->detail);
    uint32_t s = group->first_branch;
    int y = TITLE + PAD, width = 0;
    for (uint32_t i = 0; i < group->branch_count; i++, s = graph_scope(l->graph, s)->next_branch) {
        size_scope(l, s);
        l->scopes[s].x = PAD + KNOT + GAP_X;
        l->scopes[s].y = y;
        y += l->scopes[s].height + GAP_Y;
        width = l->scopes[s].width > width ? l->scopes[s].width : width;
    }
    width = width > title + 12 * LETTER ? width : title + 12 * LETTER;
    place->width = width + 2 * (PAD + KNOT + GAP_X);
    place->height = y + PAD - GAP_Y;
}

/* The column of every node: one behind its last predecessor. Sealed graphs have no cycle, so this ends. */
static int set_columns(struct layout *l, uint32_t scope)
{
    const struct graph *graph = l->graph;
    uint32_t count = graph_scope(graph, scope)->node_count;
    int columns = 1;
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t node = graph_scope_node(graph, scope, i);
            for (struct successor s = graph_first(graph, node); s.node != NO_NODE; graph_next(graph, &s)) {
                struct place *to = &l->nodes[s.node];
                if (to->column <= l->nodes[node].column) {
                    to->column = l->nodes[node].column + 1;
                    has_changed = true;
                }
            }
            columns = l->nodes[node].column + 1 > columns ? l->nodes[node].column + 1 : columns;
        }
    }
    return columns;
}

static void size_scope(struct layout *l, uint32_t scope)
{
    const struct graph *graph = l->graph;
    uint32_t count = graph_scope(graph, scope)->node_count;
    for (uint32_t i = 0; i < count; i++)
        size_node(l, graph_scope_node(graph, scope, i));
    int columns = set_columns(l, scope);
    int *widths = calloc((size_t)columns, sizeof *widths), *heights = calloc((size_t)columns, sizeof *heights), x = 0;
    BUG(!widths || !heights);
    for (uint32_t i = 0; i < count; i++) {
        struct place *place = &l->nodes[graph_scope_node(graph, scope, i)];
        place->y = heights[place->column];
        heights[place->column] += place->height + GAP_Y;
        widths[place->column] = place->width > widths[place->column] ? place->width : widths[place->column];
    }
    struct place *whole = &l->scopes[scope];
    for (int c = 0; c < columns; c++)
        whole->height = heights[c] - GAP_Y > whole->height ? heights[c] - GAP_Y : whole->height;
    for (int c = 0; c < columns; c++) {
        int width = widths[c];
        widths[c] = x; /* from here on: where the column begins */
        x += width + GAP_X;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct place *place = &l->nodes[graph_scope_node(graph, scope, i)];
        place->x = widths[place->column];
        place->y += (whole->height - (heights[place->column] - GAP_Y)) / 2; /* columns are centred */
    }
    whole->width = x - GAP_X;
    free(widths);
    free(heights);
}

static void place_scope(struct layout *l, uint32_t scope, int x, int y)
{
    for (uint32_t i = 0; i < graph_scope(l->graph, scope)->node_count; i++) {
        uint32_t node = graph_scope_node(l->graph, scope, i);
        struct place *place = &l->nodes[node];
        place->x += x;
        place->y += y;
        if (!graph_node(l->graph, node)->is_group)
            continue;
        const struct graph_group *group = graph_group(l->graph, graph_node(l->graph, node)->detail);
        uint32_t s = group->first_branch;
        for (uint32_t k = 0; k < group->branch_count; k++, s = graph_scope(l->graph, s)->next_branch)
            place_scope(l, s, place->x + l->scopes[s].x, place->y + l->scopes[s].y);
    }
}

static void svg_put_text(struct buf *out, int x, int y, const char *class, const char *text)
{
    buf_printf(out, "<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, class);
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"')
            buf_printf(out, "&#%d;", *text);
        else
            buf_put(out, text, 1);
    }
    buf_puts(out, "</text>\n");
}

static void put_edge(struct buf *out, int x1, int y1, int x2, int y2)
{
    int middle = (x1 + x2) / 2;
    buf_printf(out, "<path class=\"edge\" d=\"M%d %d C%d %d %d %d %d %d\"/>\n", x1, y1, middle, y1, middle, y2, x2 - 6,
               y2);
}

static int middle_of(const struct place *place)
{
    return place->y + place->height / 2;
}

static void svg_draw_scope(struct layout *l, uint32_t scope);

static void put_knot(struct buf *out, int x, int y)
{
    buf_printf(out, "<circle class=\"knot\" cx=\"%d\" cy=\"%d\" r=\"%d\"/>\n", x, y, KNOT / 2);
}

static void svg_draw_group(struct layout *l, uint32_t node)
{
    const struct place *p = &l->nodes[node];
    const struct graph_group *group = graph_group(l->graph, graph_node(l->graph, node)->detail);
    char buf[GRAPH_NAME_MAX];
    int fork = p->x + PAD, join = p->x + p->width - PAD, middle = middle_of(p);
    buf_printf(l->out, "<rect class=\"group\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"10\"/>\n", p->x, p->y,
               p->width, p->height);
    svg_put_text(l->out, p->x + PAD, p->y + TITLE - 4, "title", graph_name(l->graph, node, buf));
    put_knot(l->out, fork, middle);
    put_knot(l->out, join, middle);
    uint32_t s = group->first_branch;
    for (uint32_t i = 0; i < group->branch_count; i++, s = graph_scope(l->graph, s)->next_branch) {
        for (uint32_t k = 0; k < graph_scope(l->graph, s)->node_count; k++) {
            uint32_t inner = graph_scope_node(l->graph, s, k);
            const struct place *q = &l->nodes[inner];
            if (graph_indegree(l->graph, inner) == 0)
                put_edge(l->out, fork + KNOT / 2, middle, q->x, middle_of(q));
            if (!graph_node(l->graph, inner)->successor)
                put_edge(l->out, q->x + q->width, middle_of(q), join - KNOT / 2, middle);
        }
        svg_draw_scope(l, s);
    }
}

static void svg_draw_scope(struct layout *l, uint32_t scope)
{
    const struct graph *graph = l->graph;
    for (uint32_t i = 0; i < graph_scope(graph, scope)->node_count; i++) {
        uint32_t node = graph_scope_node(graph, scope, i);
        const struct place *p = &l->nodes[node];
        char buf[GRAPH_NAME_MAX];
        for (struct successor s = graph_first(graph, node); s.node != NO_NODE; graph_next(graph, &s)) {
            const struct place *q = &l->nodes[s.node];
            put_edge(l->out, p->x + p->width, middle_of(p), q->x, middle_of(q));
        }
        if (graph_node(graph, node)->is_group) {
            svg_draw_group(l, node);
            continue;
        }
        buf_printf(l->out, "<rect class=\"task\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", p->x, p->y,
                   p->width, p->height);
        svg_put_text(l->out, p->x + p->width / 2, p->y + BOX_HEIGHT / 2 + 4, "name", graph_name(graph, node, buf));
    }
}

void render_svg(const struct graph *graph, const char *title, struct buf *out)
{
    struct layout l = {.graph = graph, .out = out};
    l.nodes = calloc(graph->nodes.count + 1, sizeof *l.nodes);
    l.scopes = calloc(graph->scopes.count, sizeof *l.scopes);
    BUG(!l.nodes || !l.scopes);
    size_scope(&l, GRAPH_ROOT);
    place_scope(&l, GRAPH_ROOT, PAD, PAD);
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" role=\"img\" aria-label=\"%s\">\n",
               l.scopes[0].width + 2 * PAD, l.scopes[0].height + 2 * PAD, title);
    buf_puts(
        out,
        "<style>text{font:13px ui-monospace,monospace;fill:#1f2937}.name{text-anchor:middle}.title{font-weight:bold;"
        "fill:#475569}.task{fill:#eef2ff;stroke:#6366f1}.group{fill:none;stroke:#94a3b8;stroke-dasharray:5 4}"
        ".knot{fill:#475569}.edge{fill:none;stroke:#64748b;marker-end:url(#a)}</style>\n<defs><marker id=\"a\" "
        "viewBox=\"0 0 8 8\" refX=\"2\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 "
        "0L8 "
        "4L0 8z\" fill=\"#64748b\"/></marker></defs>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
    svg_draw_scope(&l, GRAPH_ROOT);
    buf_puts(out, "</svg>\n");
    free(l.nodes);
    free(l.scopes);
}
