/* Names and texts of statuses (stator/status.def). */
#include <stator/stator.h>

typedef struct status_row {
    stator_status code;
    const char *name;
    const char *text;
} status_row;

static const status_row status_rows[] = {
#define STATOR_STATUS(name, number, text) {number, #name, text},
#include <stator/status.def>
#undef STATOR_STATUS
};

static const status_row *find_status(stator_status status)
{
    for (size_t i = 0; i < sizeof status_rows / sizeof status_rows[0]; i++) {
        if (status_rows[i].code == status) {
            return &status_rows[i];
        }
    }
    return &status_rows[2]; /* UNKNOWN */
}

const char *stator_status_name(stator_status status)
{
    return find_status(status)->name;
}

const char *stator_status_text(stator_status status)
{
    return find_status(status)->text;
}
