#include "base/utf8.h"
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_WAIT_MS 30000 /* no answer within this time is a no */

bool cli_can_ask(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

bool cli_confirm(struct op_call *call, const char *question)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT;
    (void)call;
    utf8_put_visible(&b, question, true);
    fprintf(stderr, strchr(buf_str(&b), '[') ? "%s " : "%s [y/N] ", buf_str(&b));
    fflush(stderr);
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char answer[64];
    if (poll(&input, 1, ANSWER_WAIT_MS) <= 0) {
        fputs("\n", stderr);
        return false;
    }
    ssize_t n = read(STDIN_FILENO, answer, sizeof answer - 1);
    if (n == 0) /* Ctrl-D leaves the cursor behind the question */
        fputs("\n", stderr);
    if (n <= 0)
        return false;
    answer[n] = '\0';
    answer[strcspn(answer, "\r\n")] = '\0';
    return strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;
}
