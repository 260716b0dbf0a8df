#include "lock/line.h"
#include "base/fs.h"
#include "base/ident.h"
#include "base/sha256.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINE_AT    4096 /* of the table in the guard file */
#define LINE_SLOTS 64

struct slot {
    uint64_t ticket; /* 0: free */
    int64_t until_boot_ms;
    char key[16];
};

void line_key(const char *caller, char key[LINE_KEY_SIZE])
{
    char text[BOOT_ID_SIZE + 1024], hex[SHA256_HEX_SIZE];
    key[0] = '\0';
    if (!caller || !caller[0])
        return;
    int len = snprintf(text, sizeof text, "%s %s", boot_id(), caller);
    sha256_hex(text, len < (int)sizeof text ? (size_t)len : sizeof text - 1, hex);
    snprintf(key, LINE_KEY_SIZE, "%.16s", hex);
}

static bool is_kept(const struct slot *slot, int64_t now_ms)
{
    return slot->ticket && slot->until_boot_ms > now_ms && slot->until_boot_ms <= now_ms + LINE_KEEP_MS;
}

static int slots_read(const struct guard *guard, struct slot slots[LINE_SLOTS])
{
    memset(slots, 0, sizeof(struct slot) * LINE_SLOTS);
    return fs->pread(guard->fd, slots, sizeof(struct slot) * LINE_SLOTS, LINE_AT) < 0 ? -1 : 0;
}

static int slot_write(const struct guard *guard, size_t i, const struct slot *slot)
{
    off_t at = LINE_AT + (off_t)(i * sizeof *slot);
    return fs->pwrite(guard->fd, slot, sizeof *slot, at) == (ssize_t)sizeof *slot ? 0 : -1;
}

/* P2: the caller's oldest kept place. False: there is none. */
static bool take_kept(struct guard *guard, const char *key, uint64_t *ret)
{
    struct slot slots[LINE_SLOTS];
    int64_t now_ms = clock_now().boot_ms;
    if (!key[0] || slots_read(guard, slots) < 0)
        return false;
    for (;;) {
        size_t best = LINE_SLOTS;
        for (size_t i = 0; i < LINE_SLOTS; i++)
            if (is_kept(&slots[i], now_ms) && memcmp(slots[i].key, key, sizeof slots[i].key) == 0 &&
                (best == LINE_SLOTS || slots[i].ticket < slots[best].ticket))
                best = i;
        if (best == LINE_SLOTS)
            return false;
        uint64_t ticket = slots[best].ticket;
        slots[best] = (struct slot){0};
        if (slot_write(guard, best, &slots[best]) < 0)
            return false; /* it stays in the table: nobody may have it twice */
        if (fs_lock_try(guard->fd, F_WRLCK, GUARD_TICKET_BASE + (off_t)ticket, 1) == 0) {
            *ret = ticket;
            return true;
        }
    }
}

int line_enter(struct guard *guard, const char *key, uint64_t *ret_ticket, struct tsk_error *err)
{
    sigset_t saved;
    if (guard_tickets_lock(guard, &saved, err) < 0)
        return -1;
    int result = take_kept(guard, key, ret_ticket) ? 0 : guard_next_ticket(guard, ret_ticket, err);
    guard_tickets_unlock(guard, &saved);
    return result;
}

bool line_keep(struct guard *guard, const char *key, uint64_t ticket)
{
    struct slot slots[LINE_SLOTS];
    struct tsk_error ignored;
    sigset_t saved;
    size_t free_slot = 0;
    int64_t now_ms = clock_now().boot_ms;
    struct slot kept = {.ticket = ticket, .until_boot_ms = now_ms + LINE_KEEP_MS};
    if (!key[0] || guard_tickets_lock(guard, &saved, &ignored) < 0)
        return false;
    bool is_read = slots_read(guard, slots) == 0;
    while (free_slot < LINE_SLOTS && is_kept(&slots[free_slot], now_ms))
        free_slot++;
    memcpy(kept.key, key, sizeof kept.key);
    bool is_done = is_read && free_slot < LINE_SLOTS && slot_write(guard, free_slot, &kept) == 0;
    /* Before the next call can look at the table: it must find the byte free. */
    fs_lock_try(guard->fd, F_UNLCK, GUARD_TICKET_BASE + (off_t)ticket, 1);
    guard_tickets_unlock(guard, &saved);
    return is_done;
}
