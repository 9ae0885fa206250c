/* Facts in an ONNX file, for people. */
#ifndef STATOR_FRONTEND_OX_FACTS_H
#define STATOR_FRONTEND_OX_FACTS_H

#include "frontends/onnx/ox_import.h"

/* Tells the host, where it wants to know, of the surveyed model. Fails never. */
void ox_tell_facts(ox_import *im);
/* Tells of a file beside the model that a value is read from: its location in the model, its
 * path. */
void ox_tell_data(ox_import *im, const char *location, const char *path);
/* The same of the imported model: its nodes with a mode for training, and names of the main graph
 * whose value has another: what an Identity, or a Dropout for inference, hands on. */
void ox_tell_import(ox_import *im);

#endif
