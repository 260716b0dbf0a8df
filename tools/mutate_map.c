/* Which parts of a program a test has reached: linked into the build of tools/mutate_map.py, whose programs call
 * __sanitizer_cov_trace_pc at the begin of each block. A bit for each byte of code is in a file that the processes of
 * a test share, $TASUKI_REACHED/<program>; the kernel keeps it when they are killed. It changes nothing else: it
 * leaves no descriptor open, and errno as it was. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BITMAP_BYTES (8 << 20) /* for programs of 64 MiB; of the file only what is written takes room */

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
static unsigned char *reached;

void __sanitizer_cov_trace_pc(void);

__attribute__((constructor(101))) static void reached_open(void)
{
    char program[4096], path[4096 + 256];
    const char *dir = getenv("TASUKI_REACHED");
    ssize_t len = dir ? readlink("/proc/self/exe", program, sizeof program - 1) : -1;
    if (len <= 0)
        return;
    program[len] = '\0';
    /* In the library the headers of the program are elsewhere. */
    bool is_program = getauxval(AT_PHDR) - (uintptr_t)__ehdr_start < 4096;
    snprintf(path, sizeof path, "%s/%s", dir, is_program ? strrchr(program, '/') + 1 : "libtasuki.so");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0) {
        if (st.st_size == 0 && fchmod(fd, 0666) + ftruncate(fd, BITMAP_BYTES) < 0)
            abort();
        void *map = mmap(NULL, BITMAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        reached = map == MAP_FAILED ? NULL : map;
    }
    if (fd >= 0)
        close(fd);
    errno = 0;
}

void __sanitizer_cov_trace_pc(void)
{
    uintptr_t at = (uintptr_t)__builtin_return_address(0) - (uintptr_t)__ehdr_start;
    unsigned char bit = (unsigned char)(1U << (at % 8));
    if (reached && at / 8 < BITMAP_BYTES && !(reached[at / 8] & bit))
        __atomic_fetch_or(&reached[at / 8], bit, __ATOMIC_RELAXED);
}
