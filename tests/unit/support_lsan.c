/* Tells LeakSanitizer which process of a Criterion program is ours: each test runs in a worker,
 * which boxfort starts with BXFI_MAP in its environment; the program that starts the workers leaks
 * what Criterion's own timers hold. Does nothing in builds without a sanitizer. */
#include <stdlib.h>

__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
    return getenv("BXFI_MAP") == NULL;
}
