/* Any bytes as what a task wrote to TASUKI_OUTPUT: refused, or writes that can be applied or are refused as a whole. */
#include "graph/output.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct output output;
    struct channel channel;
    struct tsk_error err;
    if (output_parse(&output, (const char *)data, size, &err) < 0)
        return 0;
    BUG(channel_init(&channel, false, &err) < 0);
    uint64_t before = channel.version;
    int result = channel_apply(&channel, &output.effects, &err);
    BUG(result < 0 && channel.version != before);
    channel_clear(&channel);
    output_clear(&output);
    return 0;
}
