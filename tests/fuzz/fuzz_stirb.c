/* Fuzz target of the .stirb reader: any bytes are refused with a message or make a graph that is
 * stable (see fuzz_graph.h). */
#include "fuzz_graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static fuzz_world world;
    fuzz_one(&world, data, size);
    return 0;
}
