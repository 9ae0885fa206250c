/* Errors at the border. What a slot hands to the host is the host's; what code in here passes on is
 * its own (core/base/diag.h). The two are different memory of perhaps different builds, so a text
 * is copied where one becomes the other and each is released by its maker. */
#include "codegen/codegen.h"

#include "core/base/diag.h"

#include <string.h>

static const char *text_or(const char *text, stator_status status)
{
    return text && text[0]                       ? text
           : status == STATOR_RESOURCE_EXHAUSTED ? "out of memory"
                                                 : "no reason was given";
}

stator_status st_cg_to_host(const stator_host *host, stator_status status, stator_diag *own,
                            stator_diag **err)
{
    if (status != STATOR_OK && err && *err == NULL) {
        const char *text = text_or(st_diag_text(own), status);
        *err = host->diag->create(status, text, strlen(text));
        if (st_diag_hint(own)) {
            host->diag->set_hint(*err, st_diag_hint(own));
        }
    }
    st_diag_release(own);
    return status;
}

stator_status st_cg_from_host(const stator_host *host, stator_status status, stator_diag **theirs,
                              stator_diag **err)
{
    if (status != STATOR_OK && err && *err == NULL) {
        const char *hint = *theirs ? host->diag->hint(*theirs) : NULL;
        const char *text = *theirs ? host->diag->text(*theirs) : NULL;
        (void)st_fail(err, status, "%s", text_or(text, status));
        if (hint) {
            st_diag_set_hint(*err, "%s", hint);
        }
    }
    if (*theirs) {
        host->diag->release(*theirs);
        *theirs = NULL;
    }
    return status;
}
