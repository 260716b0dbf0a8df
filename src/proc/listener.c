#include "proc/listener.h"

#include "base/listing.h"
#include "base/word.h"
#include "proc/kin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TABLE_MAX    (64u << 20)
#define LINE_SIZE    512
#define INODES_MAX   64 /* sockets that share one port (SO_REUSEPORT) */
#define STATE_LISTEN 0x0A

/* How closely a socket's address matches; the kernel gives a connection to the closest. */
enum closeness { NO_MATCH, ANY_FAMILY, ANY_ADDRESS, EXACT };

struct sockets {
    enum closeness closeness; /* of all of them */
    uint64_t inodes[INODES_MAX];
    size_t count;
};

/* ---- who listens -------------------------------------------------------------------------------------------------- */

/* As an IPv6 address, an IPv4 address being ::ffff:a.b.c.d. */
static void address_widen(const union address *address, struct in6_addr *ret)
{
    if (address->any.sa_family == AF_INET6) {
        *ret = address->v6.sin6_addr;
        return;
    }
    *ret = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(&ret->s6_addr[12], &address->v4.sin_addr, 4);
}

/* "0100007F" or four such words, as the kernel prints the bytes of an address in its own order. */
static void parse_local(const char *text, bool is_v6, struct in6_addr *ret)
{
    *ret = (struct in6_addr){.s6_addr = {[10] = is_v6 ? 0 : 0xff, [11] = is_v6 ? 0 : 0xff}};
    for (int i = is_v6 ? 0 : 3; i < 4; i++, text += 8) {
        char digits[9] = "";
        memcpy(digits, text, 8);
        uint32_t word = (uint32_t)strtoul(digits, NULL, 16);
        memcpy(&ret->s6_addr[(size_t)i * 4], &word, 4);
    }
}

static enum closeness address_compare(const struct in6_addr *local, bool is_v6, const struct in6_addr *wanted)
{
    static const struct in6_addr any_v4 = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    if (memcmp(local, wanted, sizeof *local) == 0)
        return EXACT;
    if (!is_v6)
        return memcmp(local, &any_v4, sizeof any_v4) == 0 && IN6_IS_ADDR_V4MAPPED(wanted) ? ANY_ADDRESS : NO_MATCH;
    if (!IN6_IS_ADDR_UNSPECIFIED(local))
        return NO_MATCH;
    return IN6_IS_ADDR_V4MAPPED(wanted) ? ANY_FAMILY : ANY_ADDRESS;
}

static void take_socket_line(const char *line, bool is_v6, const struct in6_addr *wanted, unsigned wanted_port,
                             struct sockets *ret)
{
    /* sl local:port remote:port state queues timer retransmissions uid timeout inode … */
    enum { LOCAL = 1, STATE = 3, INODE = 9, WORDS };
    char copy[LINE_SIZE], *words[WORDS], *end;
    struct in6_addr address;
    size_t len = strcspn(line, "\n");
    if (len >= sizeof copy)
        return;
    memcpy(copy, line, len);
    copy[len] = '\0';
    if (words_split(copy, words, WORDS) < WORDS || strtoul(words[STATE], NULL, 16) != STATE_LISTEN ||
        strcspn(words[LOCAL], ":") != (is_v6 ? 32 : 8))
        return;
    if (strtoul(strchrnul(words[LOCAL], ':') + 1, &end, 16) != wanted_port || *end)
        return;
    parse_local(words[LOCAL], is_v6, &address);
    uint64_t inode = strtoull(words[INODE], NULL, 10);
    enum closeness closeness = address_compare(&address, is_v6, wanted);
    if (closeness == NO_MATCH || closeness < ret->closeness)
        return;
    if (closeness > ret->closeness)
        *ret = (struct sockets){.closeness = closeness};
    if (ret->count < INODES_MAX)
        ret->inodes[ret->count++] = inode;
}

static void read_table(int dir, bool is_v6, const union address *address, struct sockets *ret)
{
    struct buf text CLEANUP(buf_clear) = {.max = TABLE_MAX};
    struct in6_addr wanted;
    unsigned port = ntohs(address->any.sa_family == AF_INET6 ? address->v6.sin6_port : address->v4.sin_port);
    int fd CLEANUP_FD = fs->openat(dir, is_v6 ? "net/tcp6" : "net/tcp", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0 || fs_read_stream(fd, TABLE_MAX - 1, &text) < 0)
        return;
    address_widen(address, &wanted);
    buf_str(&text);
    for (const char *line = text.data; line && *line; line = strchr(line, '\n'), line += line != NULL)
        take_socket_line(line, is_v6, &wanted, port, ret);
}

/* In the network of `who`: "self", or the pid of a process that has a network of its own. */
static void find_sockets(const char *who, const union address *address, struct sockets *ret)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%s", who);
    *ret = (struct sockets){.closeness = NO_MATCH};
    int dir CLEANUP_FD = fs->openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (dir < 0)
        return;
    read_table(dir, false, address, ret);
    read_table(dir, true, address, ret);
}

/* ---- whose they are ----------------------------------------------------------------------------------------------- */

static bool has_inode(const struct sockets *sockets, uint64_t inode)
{
    for (size_t i = 0; i < sockets->count; i++)
        if (sockets->inodes[i] == inode)
            return true;
    return false;
}

/* 1 yes, 0 no, -1 its descriptors cannot be read. */
static int has_socket(pid_t pid, const struct sockets *sockets)
{
    char path[32], target[64];
    int result = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    struct listing fds CLEANUP(listing_close);
    if (listing_open(&fds, AT_FDCWD, path, 0) < 0)
        return errno == EACCES || errno == EPERM ? -1 : 0;
    for (const char *name; result == 0 && (name = listing_next(&fds));) {
        ssize_t len = readlinkat(fds.fd, name, target, sizeof target - 1);
        target[len < 0 ? 0 : len] = '\0';
        result = strncmp(target, "socket:[", 8) == 0 && has_inode(sockets, strtoull(target + 8, NULL, 10));
    }
    return result;
}

static enum listener sockets_judge(const struct kin_list *kin, const struct sockets *sockets)
{
    enum listener answer = LISTENER_OTHER;
    for (size_t i = 0; i < kin->count; i++) {
        int has = has_socket(kin->list[i].id.pid, sockets);
        if (has == 1)
            return LISTENER_OWN;
        if (has < 0)
            answer = LISTENER_UNSEEN;
    }
    return answer;
}

static uint64_t network_of(const char *who)
{
    char path[40];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%s/ns/net", who);
    return fs->fstatat(AT_FDCWD, path, &st, 0) < 0 ? 0 : st.st_ino;
}

enum listener listener_of(const struct proc *p, const union address *address)
{
    struct kin_list kin CLEANUP(kin_list_clear) = {.count = 0};
    struct sockets sockets;
    struct tsk_error ignored; /* LISTENER_UNSEEN says it */
    if (kin_of_start(p, &kin, &ignored) < 0)
        return LISTENER_UNSEEN;
    find_sockets("self", address, &sockets);
    if (sockets.count)
        return sockets_judge(&kin, &sockets);
    /* Nobody here: a process with a network of its own is reached at an address of that. */
    for (size_t i = 0; i < kin.count; i++) {
        const char *who = DIGITS(kin.list[i].id.pid);
        uint64_t network = network_of(who);
        if (!network || network == network_of("self"))
            continue;
        find_sockets(who, address, &sockets);
        if (sockets.count)
            return sockets_judge(&kin, &sockets);
    }
    return LISTENER_NONE;
}
