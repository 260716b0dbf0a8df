/* lock.c - hold a lock while working, from C.
 *
 *     cc lock.c $(pkg-config --cflags --libs tasuki) -o lock
 *     ./lock deploy 10
 *
 * Takes the named lock of the workspace that contains the working directory, waiting up to 10 s for it, works, and
 * releases the lock. Exit codes: 0 success, 4 another process has the lock, 3 any other error. */
#include <stdio.h>
#include <stdlib.h>
#include <tasuki.h>

/* Prints the error, the lock's holder, and the next commands. */
static int report(const struct tsk_error *err)
{
    char message[512];
    fprintf(stderr, "lock: %s\n", tsk_error_message(err, NULL, message, sizeof message));
    const char *path = tsk_error_context(err, "path");
    if (path)
        fprintf(stderr, "  file      %s\n", path);
    const char *command;
    for (unsigned i = 0; (command = tsk_error_next(err, i)); i++)
        fprintf(stderr, "  try       %s\n", command);
    return err->code == TSK_LOCK_HELD || err->code == TSK_LOCK_LOST ? 4 : 3;
}

/* The work. Long work checks from time to time that it still has the lock: another process can force it away. */
static int work(struct tsk_lock *lock, struct tsk_error *err)
{
    printf("held, fence %llu\n", (unsigned long long)tsk_lock_fence(lock));
    for (int step = 1; step <= 3; step++) {
        if (tsk_lock_renew(lock, err) < 0)
            return -1;
        printf("step %d\n", step);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct tsk_error err;
    struct tsk_workspace *workspace;
    struct tsk_lock *lock;
    struct tsk_lock_options options = {.size = sizeof options};
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: lock NAME [SECONDS]\n");
        return 2;
    }
    if (argc == 3)
        options.wait_ms = strtoll(argv[2], NULL, 10) * 1000;
    if (tsk_workspace_open(NULL, &workspace, &err) < 0)
        return report(&err);
    int code = 0;
    if (tsk_lock_acquire(workspace, TSK_LOCK_NAME, argv[1], &options, &lock, &err) < 0) {
        code = report(&err);
    } else {
        if (work(lock, &err) < 0)
            code = report(&err);
        if (tsk_lock_release(lock, &err) < 0) /* frees it in every case */
            code = report(&err);
    }
    tsk_workspace_close(workspace);
    return code;
}
