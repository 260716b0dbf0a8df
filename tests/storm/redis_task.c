/* storm-redis-task NAME MS - a task of test_redis_storm.py, and the witness of its copies. It holds locks/NAME until its last process is
 * gone; a copy that finds it held writes NAME to the file `overlaps`. One process of it outlives its first one if that is killed, and
 * every other one leaves its session, so that it has to be found. It reads `n` of the channel and reports what it saw. Run in the
 * workspace. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARTS 8 /* keys `last_<number modulo PARTS>` */

static void fail(const char *what)
{
    perror(what);
    exit(9);
}

static void witness(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "locks/%s", name);
    int fd = open(path, O_RDWR | O_CREAT, 0600); /* for all processes of the task */
    if (fd < 0)
        fail(path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return;
    int overlaps = open("overlaps", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (overlaps < 0 || dprintf(overlaps, "%s\n", name) < 0)
        fail("overlaps");
}

static void rest(long ms)
{
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        if (ms % 2)
            setsid();
        usleep((useconds_t)ms * 1000);
        _exit(0);
    }
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* How many tasks had ended. */
static long seen_ends(void)
{
    const char *path = getenv("TASUKI_CHANNEL");
    int fd = open(path ? path : "", O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        fail("TASUKI_CHANNEL");
    char *text = calloc(1, (size_t)st.st_size + 1);
    if (!text || read(fd, text, (size_t)st.st_size) != st.st_size)
        fail("TASUKI_CHANNEL");
    const char *at = strstr(text, "\"n\":");
    long n = at ? strtol(at + strlen("\"n\":"), NULL, 10) : 0;
    free(text);
    return n;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const char *name = argv[1], *path = getenv("TASUKI_OUTPUT");
    witness(name);
    rest(strtol(argv[2], NULL, 10));
    long n = seen_ends();
    FILE *output = fopen(path ? path : "", "a");
    if (!output)
        fail("TASUKI_OUTPUT");
    fprintf(output,
            "{\"do\":\"add\",\"key\":\"n\",\"value\":1}\n"
            "{\"do\":\"append\",\"key\":\"log\",\"value\":\"%s saw %ld\"}\n"
            "{\"do\":\"set\",\"key\":\"last\",\"value\":\"%s\"}\n"
            "{\"do\":\"set\",\"key\":\"last_%ld\",\"value\":%ld}\n",
            name, n, name, strtol(name + 1, NULL, 10) % PARTS, n);
    return fclose(output) == 0 ? 0 : 9;
}
