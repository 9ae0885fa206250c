/* How a mutant of a kind begins: as the SDK has it, or not at all with MUTANT_INIT_FAILS. */
#ifndef STATOR_TESTS_MUTANT_INIT_H
#define STATOR_TESTS_MUTANT_INIT_H

#include <stator/plugin.h>

static stator_status init(const stator_host *host, void **self, stator_diag **err)
{
#ifdef MUTANT_INIT_FAILS
    (void)host;
    (void)self;
    (void)err;
    return STATOR_INTERNAL;
#else
    return stator_init_host(host, self, err);
#endif
}

#endif
