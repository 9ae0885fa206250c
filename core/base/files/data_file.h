/* Data files: what the format of a model's file keeps outside of it, in a file beside it that it
 * names. Each copy of a model has one under a name of its own, MODEL.TOKEN.data, so that
 * whichever of two copies stands under the model's name, a kill between the files or not, its
 * own data lie beside it. */
#ifndef STATOR_BASE_DATA_FILE_H
#define STATOR_BASE_DATA_FILE_H

#include "core/base/files/out_file.h"

/* A new name, with the folder, for data of the file that will be at `place`. */
stator_status st_data_name(const char *place, char out[ST_PATH_BYTES], stator_diag **err);
/* The data file, with the folder, that the file at `place` names and that was made for one of its
 * name; "": there is none. */
void st_data_find(const char *place, char out[ST_PATH_BYTES]);
/* Removes the data file unless another file of its folder names it, a model that was copied say.
 * Where that is not known (a file cannot be read, or there is too much to read) it stays. */
void st_data_remove_unnamed(const char *data_path);

#endif
