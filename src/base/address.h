/* address.h - addresses of the network, and the hosts that have them.
 *
 * Names are looked up in /etc/hosts and nowhere else: DNS can take any time, and getaddrinfo does not work reliably in a static
 * program (docs/decisions/002-static-program.md). */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#define ADDRESSES_MAX 4

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

socklen_t address_len(const union address *address);
/* Parses "127.0.0.1" or "::1". Returns false if `host` is a name. */
bool address_parse(const char *host, int port, union address *ret);
/* Finds the addresses of a host, given as an address, localhost, or a name in /etc/hosts. Returns their number. */
size_t host_addresses(const char *host, int port, union address list[ADDRESSES_MAX]);

#endif
