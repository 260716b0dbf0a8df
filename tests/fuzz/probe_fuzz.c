/* Any bytes as what a probe meets: an HTTP answer, an sd_notify datagram, a URL. The answer is known early and does not change
 * when more of it arrives; a URL that is accepted has nothing in it that would end a line of the request. */
#include "proc/probe_try.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_answer(const char *data, size_t size)
{
    int first = 0, known = 0;
    for (size_t len = 0; len <= size && len < 4096; len++) {
        int status = 0, result = http_status(data, len, &status);
        BUG(known && (result != known || status != first));
        BUG(result > 0 && (status < 0 || status > 999));
        known = result;
        first = status;
    }
}

static void check_url(const char *text)
{
    struct http_url url;
    if (http_url_parse(text, &url) < 0)
        return;
    BUG(url.port < 1 || url.port > 65535 || !url.host[0] || strlen(url.host_header) < strlen(url.host));
    BUG(url.path < text || url.path + url.path_len > text + strlen(text));
    BUG(strpbrk(text, "\r\n \t") || memchr(url.path, '#', url.path_len) || strchr(url.host_header, '/'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1); /* of its exact size: reading past the end is seen */
    BUG(!copy);
    memcpy(copy, data, size);
    copy[size] = '\0';
    struct notify_words words;
    notify_parse(copy, size, &words);
    BUG(words.status[0] && !words.has_status);
    check_answer(copy, size);
    check_url(copy);
    free(copy);
    return 0;
}
