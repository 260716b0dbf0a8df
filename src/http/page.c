/* page.c - serves the files of the page. They are part of the program, and compressed except the first one, which
 * people look at with curl. A browser keeps what has a hash in its name, and asks for "/" each time. */
#include "http/page.h"
#include "http/internal.h"

#include <string.h>

/* Nothing comes from elsewhere, nothing is sent elsewhere, no text becomes code: scripts and styles are files of ours. */
#define PAGE_HEADERS                                                                                                   \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "         \
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "                                \
    "require-trusted-types-for 'script'; trusted-types 'none'\r\n"                                                     \
    "Cross-Origin-Opener-Policy: same-origin\r\n"                                                                      \
    "Cross-Origin-Resource-Policy: same-origin\r\n"                                                                    \
    "Referrer-Policy: no-referrer\r\n"

static const struct page_file *page_file_find(const struct http_text *path)
{
    const struct page_file *file = page_files;
    while (file->path && !http_text_is(path, file->path))
        file++;
    return file->path ? file : NULL;
}

bool page_has(const struct http_text *path)
{
    return page_file_find(path) != NULL;
}

void page_get(struct http_conn *conn)
{
    const struct page_file *file = page_file_find(&conn->head->path);
    BUG(!file);
    bool is_named_by_hash = strcmp(file->path, "/") != 0;
    char headers[1024];
    snprintf(headers, sizeof headers, PAGE_HEADERS "%sCache-Control: %s\r\nETag: %s\r\n",
             file->is_packed ? "Content-Encoding: gzip\r\n" : "",
             is_named_by_hash ? "public, max-age=31536000, immutable" : "no-cache", file->etag);
    if (http_text_has(http_header(conn->head, "If-None-Match"), file->etag))
        conn_answer(conn, 304, NULL, headers, NULL, 0);
    else
        conn_answer(conn, 200, file->type, headers, file->data, file->len);
}
