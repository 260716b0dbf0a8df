/* Any bytes as a flow file: refused with places inside the text, or a sealed graph that can be drawn and run in mind. */
#include "base/json.h"
#include "graph/flow.h"
#include "graph/memory.h"
#include "graph/render.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STEPS_MAX 10000

/* Everything succeeds: the run must come to its end, each task having been claimed once. */
static void run_in_mind(const struct flow *flow)
{
    struct tsk_error err;
    struct memory *memory;
    struct memory_limits limits = {0};
    struct memory_status status;
    struct claim claim;
    size_t steps = 0;
    BUG(memory_new(&flow->graph, "s", NULL, &limits, NULL, &memory, &err) < 0);
    while (steps < STEPS_MAX && memory_claim(memory, 0, &claim)) {
        struct completion completion = {.outcome = OUTCOME_OK};
        BUG(!memory_complete(memory, &claim, &completion));
        steps++;
    }
    memory_status(memory, &status);
    BUG(steps < STEPS_MAX && (status.state != RUN_ENDED || status.has_failed || steps != flow->tasks.count));
    memory_free(memory);
}

static void draw(const struct flow *flow)
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    if (flow->graph.nodes.count > 200)
        return;
    render_ascii(&flow->graph, &text);
    render_mermaid(&flow->graph, "t", &text);
    render_dot(&flow->graph, "t", &text);
    render_svg(&flow->graph, "t", &text);
    BUG(text.failed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct flow flow;
    struct tsk_error err;
    char *text = malloc(size + 1);
    BUG(!text);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    if (flow_load(&flow, "input", text, size, LANG_EN, &err) == 0) {
        run_in_mind(&flow);
        draw(&flow);
        flow_clear(&flow);
    } else {
        BUG(err.code != TSK_FLOW_INVALID || !tsk_error_context(&err, "line"));
        json_t *document CLEANUP_JSON = json_of_error(&err, "en");
        BUG(!document);
    }
    free(text);
    return 0;
}
