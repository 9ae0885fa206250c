/* The import itself, as the plugin's descriptor calls it. */
#ifndef STATOR_FRONTEND_OX_MODEL_H
#define STATOR_FRONTEND_OX_MODEL_H

#include <stator/plugin.h>

/* Writes the model of `source` into the builder. The status is also in *err, with a text that names
 * node and op; NEED_VALUE after source->need_value was called for each input that must be known. */
stator_status ox_import_model(const stator_host *host, const stator_source *source,
                              const stator_options *options, stator_builder *builder,
                              stator_diag **err);

#endif
