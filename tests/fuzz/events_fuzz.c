/* Any bytes as events.ndjson: reading ends, ids grow, and the next append is readable. */
#include "base/fs.h"
#include "store/events.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned read_all(int dir, int64_t *ret_last_id)
{
    struct event_reader reader;
    struct tsk_error err;
    json_t *event;
    unsigned count = 0;
    BUG(event_reader_init(&reader, dir, 0, &err) < 0);
    while (event_read(&reader, &event, &err) == 1) {
        int64_t id = json_get_int(event, "id", -1);
        BUG(count && id <= *ret_last_id);
        *ret_last_id = id;
        count++;
        json_decref(event);
    }
    event_reader_clear(&reader);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[] = "/tmp/tasuki-fuzz-XXXXXX", closed[64];
    struct tsk_error err;
    struct event_trail trail;
    int64_t last_id = -1;
    if (!mkdtemp(name))
        return 0;
    int dir CLEANUP_FD = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd CLEANUP_FD = openat(dir, "events.ndjson", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    BUG(fs_write_all(fd, data, size) < 0);
    unsigned before = read_all(dir, &last_id);
    event_trail_init(&trail, dir);
    BUG(event_append(&trail, &(struct now){.wall_ms = 1}, &(struct event){.type = "t"}, NULL, &err) < 0);
    event_trail_clear(&trail);
    BUG(read_all(dir, &last_id) < before + 1);
    unlinkat(dir, "events.ndjson", 0);
    unlinkat(dir, "events.lock", 0);
    snprintf(closed, sizeof closed, "events.%020d.ndjson", 0);
    unlinkat(dir, closed, 0);
    rmdir(name);
    return 0;
}
