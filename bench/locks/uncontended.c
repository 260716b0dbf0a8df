/* uncontended.c - how fast one process takes and returns a lock that nobody else wants. */
#include "bench.h"

#include <stdio.h>

int uncontended_main(int argc, char **argv)
{
    const struct method *method = argc == 4 ? method_find(argv[1]) : NULL;
    if (!method)
        return 2;
    long count = parse_count(argv[3]);
    struct bench bench = {.fd = -1};
    method->open(&bench, argv[2]);
    for (long i = 0; i < count / 10 + 1; i++) { /* the first ones create files and warm caches */
        method->acquire(&bench, false);
        method->release(&bench);
    }
    int64_t start = now_ns();
    for (long i = 0; i < count; i++) {
        method->acquire(&bench, false);
        method->release(&bench);
    }
    double seconds = (double)(now_ns() - start) / 1e9;
    printf("{\"method\": \"%s\", \"count\": %ld, \"per_second\": %.1f}\n", method->name, count,
           (double)count / seconds);
    return 0;
}
