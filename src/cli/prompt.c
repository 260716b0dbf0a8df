#include "base/utf8.h"
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_WAIT_MS 30000 /* no answer within this time is a no */
#define ANSWER_ROOM    4     /* columns */
#define KEYS           "[y/N]"

bool cli_can_ask(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

/* The lines of a question, broken between words, with room for the answer behind the last one. */
static void put_asked(struct buf *b, char *question)
{
    size_t width = (size_t)cli_terminal_width(stderr);
    for (char *line = question, *end; line; line = end) {
        end = strchr(line, '\n');
        end = end ? (*end = '\0', end + 1) : NULL;
        cli_put_wrapped(b, line, 0, width > 2 * ANSWER_ROOM ? width - ANSWER_ROOM : width);
    }
    if (b->len)
        b->data[b->len - 1] = ' ';
}

bool cli_confirm(struct op_call *call, const char *question)
{
    struct buf b CLEANUP(buf_clear) = BUF_INIT, shown CLEANUP(buf_clear) = BUF_INIT;
    (void)call;
    utf8_put_visible(&b, question, true);
    if (b.len < strlen(KEYS) || strcmp(b.data + b.len - strlen(KEYS), KEYS) != 0) /* a name may have it, too */
        buf_puts(&b, " " KEYS);
    put_asked(&shown, b.data);
    fputs(buf_str(&shown), stderr);
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
