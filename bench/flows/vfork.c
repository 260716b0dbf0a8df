/* vfork.c - the limit for running programs: COUNT times /bin/true, PARALLEL at a time, with nothing around it. */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool start(char *const *command)
{
    pid_t pid = vfork();
    if (pid == 0) {
        execve(command[0], command, environ);
        _exit(127);
    }
    return pid > 0;
}

int main(int argc, char **argv)
{
    char *command[] = {"/bin/true", NULL};
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 1, parallel = argc > 2 ? strtol(argv[2], NULL, 10) : 1,
         running = 0;
    for (long i = 0; i < count; i++) {
        if (running == parallel && wait(NULL) > 0)
            running--;
        running += start(command);
    }
    while (wait(NULL) > 0)
        ;
    return 0;
}
