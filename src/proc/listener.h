/* listener.h - which program answers at an address: the process that is probed, or another one. */
#ifndef PROC_LISTENER_H
#define PROC_LISTENER_H

#include "base/address.h"
#include "proc/process.h"

enum listener {
    LISTENER_OWN,    /* a process of the start listens there */
    LISTENER_OTHER,  /* another program listens there, no process of the start */
    LISTENER_UNSEEN, /* a process of the start may: the descriptors of one of them cannot be read */
    LISTENER_NONE,   /* no socket of this machine listens there */
};
/* `address` is one to which a connection was made. */
enum listener listener_of(const struct proc *p, const union address *address);

#endif
