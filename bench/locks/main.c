/* main.c - chooses the part of the lock benchmark. */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct part {
    const char *name;
    const char *arguments;
    const char *about;
    int (*main)(int argc, char **argv);
} parts[] = {
    {"uncontended", "METHOD ROOT COUNT", "acquire and release COUNT times", uncontended_main},
    {"contended", "METHOD ROOT PROCESSES MILLISECONDS", "all want the same lock", contended_main},
    {"death", "METHOD ROOT COUNT", "SIGKILL of the holder until the next one holds", death_main},
    {"fill", "ROOT COUNT", "hold COUNT locks until stdin ends", fill_main},
    {"spawn", "COUNT COMMAND... [+ COMMAND...]", "run commands in turn, time of each", spawn_main},
};

static int usage(FILE *out)
{
    fputs("usage: bench-locks PART ARGUMENTS (bench/run.py calls it)\n", out);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        fprintf(out, "  %s %s: %s\n", parts[i].name, parts[i].arguments, parts[i].about);
    method_print_all();
    return out == stdout ? 0 : 2;
}

void die(const char *what)
{
    fprintf(stderr, "bench-locks: %s: %s\n", what, strerror(errno));
    exit(1);
}

void die_tasuki(const char *what, const struct tsk_error *err)
{
    char message[1024];
    fprintf(stderr, "bench-locks: %s: %s: %s\n", what, tsk_code_name(err->code),
            tsk_error_message(err, "en", message, sizeof message));
    exit(1);
}

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

long parse_count(const char *text)
{
    char *end;
    errno = 0;
    long count = strtol(text, &end, 10);
    if (errno || *end || end == text || count < 1) {
        fprintf(stderr, "bench-locks: not a count: %s\n", text);
        exit(2);
    }
    return count;
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void sort_ns(int64_t *value, long count)
{
    qsort(value, (size_t)count, sizeof *value, compare_ns);
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--help"))
        return usage(stdout);
    for (size_t i = 0; argc > 1 && i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(argv[1], parts[i].name)) {
            int result = parts[i].main(argc - 1, argv + 1);
            return result == 2 ? usage(stderr) : result;
        }
    return usage(stderr);
}
