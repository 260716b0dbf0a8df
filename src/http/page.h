/* page.h - the files of the page (ui/), made by tools/build_page.py. */
#ifndef HTTP_PAGE_H
#define HTTP_PAGE_H

#include <stdbool.h>
#include <stddef.h>

struct page_file {
    const char *path;        /* "/", "/assets/app-ABCD.js": the hash of the content is in the name */
    const char *type, *etag; /* the latter with its quotes */
    const unsigned char *data;
    size_t len;
    bool is_packed; /* with gzip */
};

extern const struct page_file page_files[]; /* up to one without a path */

#endif
