/* skins.h - the operations that are skins themselves, set by main: a skin is above the table. NULL in programs without it. */
#ifndef OPS_SKINS_H
#define OPS_SKINS_H

#include "ops/ops.h"

extern int (*op_mcp_serve)(struct op_call *call, struct tsk_error *err); /* `tasuki mcp` */
extern int (*op_serve_run)(struct op_call *call, struct tsk_error *err); /* `tasuki serve` */

#endif
