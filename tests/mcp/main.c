/* main.c - tasuki with the fixtures of the official conformance suite (fixtures.h): `tasuki-conformance mcp`, `tasuki-conformance
 * serve`. bench/mcp uses it, too: its fastest tool shows the cost of the protocol alone. */
#include "cli/cli.h"
#include "fixtures.h"
#include "http/http.h"
#include "ops/skins.h"

int main(int argc, char **argv)
{
    mcp_extra = &fixtures;
    op_mcp_serve = mcp_stdio;
    op_serve_run = http_serve;
    return cli_main(argc, argv);
}
