/* main.c - the program: the skins are put together here, because none of them sees another. */
#include "cli/cli.h"
#include "http/http.h"
#include "mcp/mcp.h"
#include "ops/skins.h"

int main(int argc, char **argv)
{
    op_mcp_serve = mcp_stdio;
    op_serve_run = http_serve;
    return cli_main(argc, argv);
}
