#include "base/log.h"

static struct {
    log_sink *sink;
    void *data;
} target;

void log_to(log_sink *sink, void *data)
{
    target.sink = sink;
    target.data = data;
}

void log_problem(const struct tsk_error *problem)
{
    if (target.sink)
        target.sink(problem, target.data);
}
