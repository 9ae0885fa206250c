/* What `stator train` is made of: a data set whose rows become batches, and the loop over them. */
#ifndef STATOR_TOOL_TRAIN_H
#define STATOR_TOOL_TRAIN_H

#include "core/base/fdio.h"
#include "tools/cli/cli.h"

#include <stator/train.h>

#define TRAIN_CHECKPOINT "checkpoint.npz" /* in the folder of checkpoints */

/* An input that is filled with rows of an array of the data set. */
typedef struct train_port {
    uint32_t input; /* place among the inputs of a call */
    bool is_target; /* the loss compares with it */
    stator_port_info info;
    stator_tensor *array;
    uint64_t row_bytes;
} train_port;

typedef struct train_data {
    stator_ctx *ctx;
    const char *path;
    int json;
    cli_tensors arrays;
    train_port ports[CLI_OPTIONS_MAX];
    uint32_t n_ports;
    int64_t rows;
    int64_t *order; /* rows as they are taken */
} train_data;

/* A model of a step, or of the loss alone, with the inputs of its calls. */
typedef struct train_program {
    stator_model *model;
    stator_function *function;
    stator_tensor **in, **out;
    uint8_t *roles;         /* stator_train_role, by input */
    stator_tensor *batches; /* among in[]; NULL: none */
    uint32_t n_in, n_out;
} train_program;

/* Reads the archive; each input of the program that is data or the target is filled from the
 * array of its name. CLI_OK, or prints and gives the exit status. Free it in both cases. */
cli_status train_data_read(train_data *data, const train_program *p);
void train_data_free(train_data *data);
/* Rows in the order of the file, or in one drawn for the seed and the epoch. */
void train_data_order(train_data *data, bool is_shuffled, uint64_t seed, uint64_t epoch);
/* Puts rows order[first..first+n) into new tensors of in[], in the place of those there. */
cli_status train_data_fill(const train_data *data, int64_t first, int64_t n, stator_tensor **in);
/* The first input of the model, or else the target, whose rows of a batch are a number; NULL: how
 * many there are is the caller's to choose. */
const train_port *train_data_fixed(const train_data *data);
/* NULL: there is none. */
const train_port *train_data_target(const train_data *data);
/* Class indices in the array are below `classes`, or `ignored`. */
cli_status train_data_check_classes(const train_data *data, const train_port *port, int64_t classes,
                                    int64_t ignored);

typedef struct train_settings {
    cli_common common;
    cli_compile compile;
    stator_train_options options;
    const char *path, *teacher, *data, *val, *log, *save, *init, *shuffle, *last, *checkpoint,
        *plot;
    double lr;
    int64_t epochs, batch, seed;
    int64_t accumulate;    /* batches of a step */
    int64_t every;         /* steps between checkpoints; -1: one behind each epoch */
    bool ends_with_epochs; /* the schedule's total_steps are those of all epochs */
    int resume, nan_check;
    int train_mode; /* normalisations and dropouts train, whatever the model says of them */
} train_settings;

/* Where a training stands, behind a step. */
typedef struct train_position {
    int64_t steps, epoch; /* made so far; the epoch it is in, from 0 */
    int64_t row;          /* rows of the epoch that are done */
    double sum;           /* of their losses */
    double first_loss, last_loss;
} train_position;

/* A folder in which a training keeps where it stands. */
typedef struct train_checkpoint {
    bool is_open;
    st_fd dir;    /* locked while a training writes to it */
    bool has_one; /* a whole one of this training is in it */
    char path[ST_PATH_BYTES];
} train_checkpoint;

typedef struct train_report {
    int64_t dropped_rows;
    int64_t stopped_at;            /* the step whose loss is not finite; -1: none */
    int64_t resumed_at;            /* the step that a checkpoint was written behind; 0: none */
    double val_loss, val_accuracy; /* NaN: not known */
    double median_ms, compile_ms;
    uint64_t peak_bytes;
} train_report;

/* Losses for a picture. */
typedef struct train_point {
    int64_t step;
    double loss;
} train_point;

typedef struct train_curve {
    train_point *data;
    uint32_t count;
} train_curve;

typedef struct train {
    const train_settings *settings;
    stator_ctx *ctx;
    stator_model *model;
    stator_model *inference; /* in the mode for that, which validations compute; NULL: `model` */
    stator_model *teacher;   /* in that mode too; NULL: none */
    train_program step, loss;
    train_program gradients; /* of batches before the last one of a step; model NULL: none */
    train_data data, val;
    train_position at;
    train_checkpoint checkpoint;
    train_report report;
    double *times; /* of the steps that this run made */
    size_t n_times;
    train_curve losses, validations; /* of this run, where a picture is asked for */
    stator_tensor **kept;            /* inputs of the step that --nan-check would make again */
    st_out_file log;
} train;

/* CLI_OK where no file that the training writes is another one of it, one that it reads, or stdout,
 * which has the report; the model may be saved over itself. step_file: of --write-step, or NULL. */
cli_status train_check_places(const train_settings *settings, const char *step_file);
/* The same of the files of data that the model and the teacher, which are loaded, were read
 * from. */
cli_status train_check_data_files(const train *t, const char *step_file);
/* Makes the models and reads the data; trains; ends. CLI_OK, or print and give the exit status;
 * CLI_WRONG: a loss is not finite. */
cli_status train_open(train *t);
cli_status train_run(train *t);
/* Does the training change this input of its step? */
bool train_is_state(const train *t, uint32_t input);
/* The name of an input of the step behind the prefix; free it. NULL: said why. */
char *train_state_name(const train *t, uint32_t input, const char *prefix);
/* Could an archive hold what a step holds, under these names? Asked before the training. */
cli_status train_check_names(const train *t, const char *prefix);
/* Adds what a step holds, in host memory, under the names of its inputs behind the prefix:
 * parameters, states, the step number. */
cli_status train_list_state(const train *t, const char *prefix, cli_tensors *list);
/* Writes these into an archive where the path ends in .npz, else a copy of the model's file with
 * the trained parameters. The former asks beforehand whether that will go well. */
cli_status train_save_check(const train *t, const char *path);
cli_status train_save(const train *t, const char *path);
/* The JSON of what has to be the same for the same bits; NULL: said why. */
cJSON *train_identity(const train *t);
/* CLI_OK where a checkpoint's is that of this training; else says the first setting that is
 * another, with both values. Numbers are compared as numbers, whatever their texts are. */
cli_status train_compare_identity(const train *t, const cJSON *there);
/* Rows that an epoch goes through: those of the data, or of their whole batches. */
int64_t train_epoch_rows(const train *t);
/* Makes or opens the folder of checkpoints that the settings name, and goes on from the one in it
 * where they say so. A folder that holds one is refused otherwise. */
cli_status train_checkpoint_open(train *t);
/* Publishes where the training stands; what was published before stays when that fails. */
cli_status train_checkpoint_write(train *t);
void train_checkpoint_close(train *t);
/* Draws the losses. */
cli_status train_plot(const train *t, const char *path);
/* Before a step: keeps what it begins with. Behind it: are loss, parameters and states finite? If
 * not, names the first node of it, on stderr, whose operands were and a result of which was not. */
cli_status train_nan_keep(train *t);
cli_status train_nan_is_finite(const train *t, double loss, bool *out);
cli_status train_nan_name(const train *t);
void train_close(train *t);

#endif
