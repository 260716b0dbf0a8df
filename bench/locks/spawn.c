/* spawn.c - the time of whole commands, run in turn so that both see the same machine.
 *
 * posix_spawn is a vfork: the time is that of the command, not of copying this process. */
#include "bench.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_COMMANDS 4

static int64_t time_command(char **argv)
{
    pid_t pid;
    int status;
    int64_t start = now_ns();
    int error = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
    if (error) {
        errno = error;
        die(argv[0]);
    }
    if (waitpid(pid, &status, 0) < 0)
        die("waitpid");
    int64_t took = now_ns() - start;
    if (status) {
        fprintf(stderr, "bench-locks: %s ended with wait status %d\n", argv[0], status);
        exit(1);
    }
    return took;
}

/* Cuts argv at each "+". */
static int split_commands(char **argv, char ***commands)
{
    int count = 0;
    commands[count++] = argv;
    for (; *argv; argv++)
        if (!strcmp(*argv, "+") && count < MAX_COMMANDS) {
            *argv = NULL;
            commands[count++] = argv + 1;
        }
    return count;
}

static void print_times(int64_t *times, long count)
{
    double sum = 0;
    for (long i = 0; i < count; i++)
        sum += (double)times[i];
    sort_ns(times, count);
    printf("{\"median_us\": %.1f, \"mean_us\": %.1f, \"best_us\": %.1f}", (double)times[count / 2] / 1e3,
           sum / (double)count / 1e3, (double)times[0] / 1e3);
}

int spawn_main(int argc, char **argv)
{
    char **commands[MAX_COMMANDS];
    if (argc < 3)
        return 2;
    long count = parse_count(argv[1]);
    int kinds = split_commands(argv + 2, commands);
    int64_t *times = calloc((size_t)(count * kinds), sizeof *times);
    if (!times)
        die("calloc");
    for (int k = 0; k < kinds; k++)
        time_command(commands[k]); /* the first run reads the program from the disk */
    for (long i = 0; i < count; i++)
        for (int k = 0; k < kinds; k++)
            times[k * count + i] = time_command(commands[k]);
    printf("[");
    for (int k = 0; k < kinds; k++) {
        printf("%s", k ? ", " : "");
        print_times(times + k * count, count);
    }
    printf("]\n");
    free(times);
    return 0;
}
