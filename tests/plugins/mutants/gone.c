/* The library that a mutant is linked with and that the dynamic linker will not find. */
int stator_test_gone(void);

__attribute__((visibility("default"))) int stator_test_gone(void)
{
    return 0;
}
