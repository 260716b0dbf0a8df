#include "base/address.h"
#include "base/fs.h"

#include <arpa/inet.h>
#include <string.h>

#define HOSTS_MAX (1u << 20)

socklen_t address_len(const union address *address)
{
    return address->any.sa_family == AF_INET ? sizeof address->v4 : sizeof address->v6;
}

bool address_parse(const char *host, int port, union address *ret)
{
    *ret = (union address){0};
    if (inet_pton(AF_INET, host, &ret->v4.sin_addr) == 1) {
        ret->v4.sin_family = AF_INET;
        ret->v4.sin_port = htons((uint16_t)port);
        return true;
    }
    if (inet_pton(AF_INET6, host, &ret->v6.sin6_addr) != 1)
        return false;
    ret->v6.sin6_family = AF_INET6;
    ret->v6.sin6_port = htons((uint16_t)port);
    return true;
}

static bool is_localhost(const char *host)
{
    size_t len = strlen(host);
    return strcasecmp(host, "localhost") == 0 || (len > 10 && strcasecmp(host + len - 10, ".localhost") == 0);
}

/* Whether a line of /etc/hosts gives the host an address; the line is taken apart. */
static bool hosts_line_parse(char *line, const char *host, int port, union address *ret)
{
    static const char blanks[] = " \t\r";
    char *rest, *address = NULL;
    line[strcspn(line, "#")] = '\0';
    for (char *word = strtok_r(line, blanks, &rest); word; word = strtok_r(NULL, blanks, &rest)) {
        if (!address)
            address = word;
        else if (strcasecmp(word, host) == 0)
            return address_parse(address, port, ret);
    }
    return false;
}

static size_t hosts_find(const char *host, int port, union address list[ADDRESSES_MAX])
{
    struct buf text CLEANUP(buf_clear) = BUF_INIT;
    int fd CLEANUP_FD = fs->openat(AT_FDCWD, "/etc/hosts", O_RDONLY | O_CLOEXEC, 0);
    size_t count = 0;
    if (fd < 0 || fs_read_fd(fd, HOSTS_MAX, &text) < 0)
        return 0;
    for (char *line = text.data, *end; line && count < ADDRESSES_MAX; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = '\0';
        count += hosts_line_parse(line, host, port, &list[count]);
    }
    return count;
}

size_t host_addresses(const char *host, int port, union address list[ADDRESSES_MAX])
{
    if (address_parse(host, port, &list[0]))
        return 1;
    if (!is_localhost(host))
        return hosts_find(host, port, list);
    address_parse("127.0.0.1", port, &list[0]);
    address_parse("::1", port, &list[1]);
    return 2;
}
