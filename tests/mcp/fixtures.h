/* fixtures.h - the tools, resources and prompts that the official conformance suite calls by name. They go through the same core
 * as those of tasuki: the suite checks the core. */
#ifndef MCP_FIXTURES_H
#define MCP_FIXTURES_H

#include "mcp/internal.h"

enum { FIXTURE_MAY_TASK = 1, FIXTURE_MUST_TASK = 2 };

struct mcp_fixture {
    const char *name;
    const char *schema; /* inputSchema as JSON; NULL: no arguments */
    const char *result; /* JSON, or NULL: run */
    mcp_handler *run;
    const struct mcp_round *round; /* the questions before it has a result; fixture_rounds.c */
    unsigned flags;
};

/* What the program adds to the tools of the table. */
extern const struct mcp_extra fixtures;

void fixture_add_resources(json_t *list, bool templates);
json_t *fixture_read(const char *uri); /* NULL: not one of them */
void fixture_add_prompts(json_t *list);
bool fixture_has_prompt(const char *name);
json_t *fixture_prompt(struct mcp_request *request, const char *name, struct mcp_fault *fault);

/* ---- fixture_rounds.c: round trips ---- */

struct mcp_round {
    const char *questions;         /* JSON: id -> {method, params} */
    bool has_state;                /* with a requestState */
    const struct mcp_round *after; /* another one after it */
};
extern const struct mcp_round round_name, round_sampling, round_roots, round_confirm, round_many, round_steps,
    round_context;

/* The answers (owned) when all of them are there and good; else NULL and *ret_result asks for them, or a fault. */
json_t *round_answers(struct mcp_request *request, const struct mcp_round *round, json_t **ret_result,
                      struct mcp_fault *fault);

#define PIXEL_PNG "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

#endif
