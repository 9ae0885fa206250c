/* Writing a copy of an ONNX file, as the plugin's descriptor calls it. */
#ifndef STATOR_FRONTEND_OX_REWRITE_H
#define STATOR_FRONTEND_OX_REWRITE_H

#include <stator/plugin.h>

/* Writes the file of `source` with the values of `to` as its initialisers, name by name; the status
 * is also in *err. */
stator_status ox_rewrite_model(const stator_host *host, const stator_source *source,
                               const stator_rewrite *to, stator_diag **err);

#endif
